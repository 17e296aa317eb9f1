/* The namespace of the module `builtins`, which every cell finds as it was. Names that a cell has added stay.
 */
#pragma once

/* Once, when it is as cells are to find it. -1 with an exception. */
int builtins_init(void);

/* Costs next to nothing where nobody has touched it. */
void builtins_restore(void);
