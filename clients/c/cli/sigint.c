#include "clients/c/cli/sigint.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>

static LimpetClient *interrupted_client;
static volatile sig_atomic_t came;
static struct sigaction before;

static void on_sigint(int number)
{
    came = 1;
    limpet_interrupt_call(interrupted_client);
}

void sigint_catch(LimpetClient *client, bool once)
{
    struct sigaction action = {.sa_handler = on_sigint,
                               .sa_flags = SA_RESTART | (int)(once ? SA_RESETHAND : 0)};

    interrupted_client = client;
    if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGINT, &action, NULL);
}

void sigint_release(void)
{
    sigaction(SIGINT, &before, NULL);
}

void sigint_forget(void)
{
    came = 0;
}

/* SIGINT is blocked but for the wait itself, so that none slips in between the question and the wait. */
bool sigint_wait_readable(int fd)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    sigset_t sigint, mask;
    int n = 0;

    sigemptyset(&sigint);
    sigaddset(&sigint, SIGINT);
    sigprocmask(SIG_BLOCK, &sigint, &mask);
    while (!came && n <= 0) {
        n = ppoll(&polled, 1, NULL, &mask);
        if (n < 0 && errno != EINTR)
            break;
    }
    sigprocmask(SIG_SETMASK, &mask, NULL);
    return !came;
}
