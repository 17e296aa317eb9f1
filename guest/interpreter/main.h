/* The whole program. */
#pragma once

/* `argv` as in main.c. Its exit status. */
int interpreter_main(int argc, char **argv);
