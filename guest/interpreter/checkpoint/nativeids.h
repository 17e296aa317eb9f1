/* Native numbers by which Python calls its threads beside their identity, as the kernel does: for debuggers
 * and such. */
#pragma once

/* In a copy, whose threads have been made again. With the GIL; runs no code of the cells. */
void nativeids_renew(void);
