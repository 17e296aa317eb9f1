/* The whole of limpet-interpreter as a program of its own, linked to libpython: where Python's own is not
 * installed, and for sanitizers, which have to be the first in their process. */
#include "guest/interpreter/main.h"

int main(int argc, char **argv)
{
    return interpreter_main(argc, argv);
}
