/* The first process of a pod's namespaces. */
#include <signal.h>
#include <unistd.h>

int main(void)
{
    signal(SIGTERM, _exit);
    for (;;)
        pause();
}
