/* Fatal signals: what was printed before them comes before the traceback that faulthandler writes. */
#pragma once

/* Once, when Python's faulthandler is there. */
void crash_init(void);
