/* A process that asks the launcher for disks, and a launcher that ends. */
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/file_service/process/serve.h"
#include "host/files/session_disk.h"
#include "host/ipc/ipc.h"
#include "tests/support/cmocka.h"

#define ANSWERED 9 /* exit status */

static _Noreturn void ask(int socket)
{
    Problem problem = PROBLEM_NULL;
    Loop *loop;

    if (loop_new(&loop) == 0 && disks_elsewhere(loop, socket) == 0)
        disk_maker_mount(-1, "a", &problem);
    _exit(ANSWERED);
}

/* The asker ends with the launcher: a failure that its session would be told of is not its fault, and the
 * next controller is asked again. */
TEST(asker_ends_with_the_launcher)
{
    int ends[2], status;
    pid_t pid;

    assert_int_equal(ipc_pair(ends), 0);
    pid = fork();
    if (pid == 0) {
        close(ends[0]);
        ask(ends[1]);
    }
    close(ends[1]);
    assert_int_equal(poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, -1), 1);
    close(ends[0]); /* with the question, and the socket for its answer */
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}
