/* Memory that is kept from cells where the process may hold only so much data (RLIMIT_DATA): what is needed
 * to tell that a cell ran out of it, and to run the next one, which may free some. */
#pragma once

/* Once. */
void headroom_init(void);

/* Before a cell's code runs, and after. A limit that the cell's code has set itself stays. */
void headroom_keep(void);
void headroom_use(void);
