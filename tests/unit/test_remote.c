/* host/privilege/remote.h: what is attached to a container, by a launcher that does not answer. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/privilege/launcher_protocol.h"
#include "host/privilege/remote.h"
#include "tests/support/cmocka.h"

#define PACKAGES "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* ---- the launcher ---- */

static int on_message(Ipc *ipc, const Message *message, Descriptors *descriptors)
{
    const LauncherMsgBegun begun = {.engine = text_of("oci"), .isolates = true, .image = text_of("image")};
    const LauncherMsgName name = {.container = text_of("limpet-a")};
    const int clients = STDIN_FILENO;

    switch ((LauncherKind)message->kind) {
    case LAUNCHER_BEGIN:
        return ipc_answer(descriptors_take(descriptors, 0), getppid(), LAUNCHER_DONE,
                          SCHEMA(LauncherMsgBegun), &begun, &clients, 1);
    case LAUNCHER_PACKAGES: /* a question that has no answer */
        descriptors_take(descriptors, descriptors->n - 1);
        return 0;
    case LAUNCHER_REMOVE:
        return ipc_send(ipc, LAUNCHER_REMOVED, 0, SCHEMA(LauncherMsgName), &name, NULL, 0);
    default:
        return 0;
    }
}

static void on_lost(Ipc *ipc, int error)
{
    _exit(0);
}

static const IpcEvents launcher_events = {.message = on_message, .lost = on_lost};

_Noreturn static void be_launcher(int socket)
{
    Loop *loop;
    Ipc ipc;

    if (loop_new(&loop) == 0 && ipc_open(&ipc, loop, socket, &ipc_messages, &launcher_events) == 0)
        loop_run(loop);
    _exit(1);
}

/* ---- the controller ---- */

static Loop *loop;
static char told[64]; /* in the order in which it was */

static void on_done(void *userdata, int result, const Problem *problem)
{
    assert_int_not_equal(problem->code, ERR_NONE);
    snprintf(told, sizeof(told), "%d ", result);
}

static void on_removed(void *userdata)
{
    strcat(told, "removed");
    loop_stop(loop, 0);
}

TEST(test_whoever_waits_is_told_before_the_container_is_gone)
{
    static const EngineConfig config = {.state_dir = "/state"};
    static const ContainerEvents events = {.removed = on_removed};
    static const AttachDone done = {.done = on_done};
    const ContainerSpec spec = {.name = "limpet-a",
                                .owner = "",
                                .session = "a",
                                .image = "",
                                .network = "none",
                                .session_dir = "/state/sessions/a/files",
                                .scratch_dir = "/state/sessions/a/scratch",
                                .link_dir = "/run/guests/a",
                                .data = -1};
    Problem problem = PROBLEM_NULL;
    Container *container;
    Remote *remote;
    Engine *engine;
    pid_t launcher;
    int ends[2];

    assert_int_equal(ipc_pair(ends), 0);
    launcher = fork();
    if (launcher == 0) {
        close(ends[0]);
        be_launcher(ends[1]);
    }
    close(ends[1]);
    assert_int_equal(loop_new(&loop), 0);
    assert_int_equal(remote_open(&remote, loop, ends[0], &config, "", &problem), 0);
    engine = remote_engine(remote);
    assert_int_equal(engine->ops->create(engine, &spec, &events, NULL, &container, &problem), 0);
    assert_int_equal(engine->ops->attach_packages(container, PACKAGES, &done, &problem), ATTACH_ASKED);
    engine->ops->remove(container);
    assert_int_equal(loop_run(loop), 0);
    assert_string_equal(told, "-3 removed");
    engine->ops->close(engine);
    loop_free(loop);
    assert_int_equal(waitpid(launcher, NULL, 0), launcher);
}
