/* Children of a process that was copied, which the copy does not have. */
#pragma once

/* Tells what Python has for processes of subprocess, multiprocessing and joblib that they were killed: nobody
 * waits for them any more, and nobody signals who has their number now. In the copy, with the GIL; runs no
 * Python code, so that no other thread comes first. */
void children_end(void);
