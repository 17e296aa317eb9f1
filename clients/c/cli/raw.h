/* A terminal that passes every key on. */
#pragma once

/* Standard input is one: from now on keys are read as they are typed, and none means anything here. */
void raw_begin(void);
/* As it was before, where it was changed; also when this program exits. */
void raw_end(void);
