#include "guest/interpreter/crash.h"

#include <signal.h>

#include "guest/interpreter/sink.h"

static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static struct sigaction before[ARRAY_SIZE(numbers)];

/* faulthandler writes to the descriptor itself. It is let in at once, and ends the process. */
static void on_fatal(int number)
{
    sinks_mark();
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        if (numbers[i] == number)
            sigaction(number, &before[i], NULL);
    }
    raise(number);
}

void crash_init(void)
{
    struct sigaction action = {.sa_handler = on_fatal, .sa_flags = SA_ONSTACK | SA_NODEFER};

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        sigaction(numbers[i], &action, &before[i]);
}
