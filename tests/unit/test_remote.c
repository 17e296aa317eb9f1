/* host/privilege/remote.h: what is attached to a container, by a launcher that answers when it is told to. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/privilege/launcher_protocol.h"
#include "host/privilege/remote.h"
#include "tests/support/cmocka.h"

#define PACKAGES "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* ---- the launcher ---- */

static int held = -1; /* the socket of a question that has no answer */
static bool refuses;

static void answer(int socket, LauncherKind kind, const Schema *schema, const void *body, const int *fds,
                   size_t n)
{
    if (ipc_answer(socket, getppid(), kind, schema, body, fds, n) < 0)
        _exit(2);
}

static void answer_held(void)
{
    const LauncherMsgProblem refused = {
        .code = ERR_ENGINE_ERROR, .text = text_of("not here"), .error = EOPNOTSUPP};

    if (refuses)
        answer(take_fd(&held), LAUNCHER_REFUSED, SCHEMA(LauncherMsgProblem), &refused, NULL, 0);
    else
        answer(take_fd(&held), LAUNCHER_DONE, SCHEMA(LauncherMsgNothing), &(LauncherMsgNothing){0}, NULL, 0);
}

static int on_message(Ipc *ipc, const Message *message, Descriptors *descriptors)
{
    const LauncherMsgBegun begun = {.engine = text_of("oci"), .isolates = true, .image = text_of("image")};
    const LauncherMsgName name = {.container = text_of("limpet-a")};
    const int clients = STDIN_FILENO;

    switch ((LauncherKind)message->kind) {
    case LAUNCHER_BEGIN:
        answer(descriptors_take(descriptors, 0), LAUNCHER_DONE, SCHEMA(LauncherMsgBegun), &begun, &clients,
               1);
        return 0;
    case LAUNCHER_ATTACH:
    case LAUNCHER_PACKAGES:
        held = descriptors_take(descriptors, descriptors->n - 1);
        return 0;
    case LAUNCHER_SWEEP:
        answer_held();
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
    snprintf(told + strlen(told), sizeof(told) - strlen(told), "%d ", result);
    assert_int_equal(result < 0, problem->code != ERR_NONE);
    loop_stop(loop, 0);
}

static void on_removed(void *userdata)
{
    snprintf(told + strlen(told), sizeof(told) - strlen(told), "removed");
    loop_stop(loop, 0);
}

static const ContainerEvents container_events = {.removed = on_removed};
static const AttachDone done = {.done = on_done};

typedef struct Scene {
    pid_t launcher;
    Engine *engine;
    Container *container;
} Scene;

static Scene begin(bool refused)
{
    static const EngineConfig config = {.state_dir = "/state"};
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
    Remote *remote;
    Scene scene;
    int ends[2];

    *told = '\0';
    refuses = refused;
    assert_int_equal(ipc_pair(ends), 0);
    scene.launcher = fork();
    if (scene.launcher == 0) {
        close(ends[0]);
        be_launcher(ends[1]);
    }
    close(ends[1]);
    assert_int_equal(loop_new(&loop), 0);
    assert_int_equal(remote_open(&remote, loop, ends[0], &config, "", &problem), 0);
    scene.engine = remote_engine(remote);
    assert_int_equal(
        scene.engine->ops->create(scene.engine, &spec, &container_events, NULL, &scene.container, &problem),
        0);
    return scene;
}

static void let_it_answer(const Scene *scene)
{
    scene->engine->ops->sweep(scene->engine, NULL, NULL);
}

static void end(Scene *scene)
{
    scene->engine->ops->close(scene->engine);
    loop = loop_free(loop);
    assert_int_equal(waitpid(scene->launcher, NULL, 0), scene->launcher);
}

static void remove_it(Scene *scene)
{
    *told = '\0';
    scene->engine->ops->remove(scene->container);
    assert_int_equal(loop_run(loop), 0);
}

TEST(test_the_launcher_is_asked_and_not_waited_for)
{
    Scene scene = begin(false);
    Problem problem = PROBLEM_NULL;
    const EngineOps *ops = scene.engine->ops;

    assert_int_equal(ops->attach_packages(scene.container, PACKAGES, &done, &problem), ATTACH_ASKED);
    assert_string_equal(told, "");
    let_it_answer(&scene);
    assert_int_equal(loop_run(loop), 0);
    assert_string_equal(told, "0 ");
    assert_int_equal(ops->attach_data(scene.container, STDIN_FILENO, &done, &problem), ATTACH_ASKED);
    let_it_answer(&scene);
    assert_int_equal(loop_run(loop), 0);
    assert_string_equal(told, "0 0 ");
    remove_it(&scene);
    end(&scene);
}

TEST(test_where_none_can_have_data_it_is_asked_once)
{
    Scene scene = begin(true);
    Problem problem = PROBLEM_NULL;
    const EngineOps *ops = scene.engine->ops;

    assert_int_equal(ops->attach_data(scene.container, STDIN_FILENO, &done, &problem), ATTACH_ASKED);
    let_it_answer(&scene);
    assert_int_equal(loop_run(loop), 0);
    assert_int_equal(ops->attach_data(scene.container, STDIN_FILENO, &done, &problem), -EOPNOTSUPP);
    assert_int_equal(problem.code, ERR_ENGINE_ERROR);
    assert_int_equal(ops->attach_packages(scene.container, PACKAGES, &done, &problem), ATTACH_ASKED);
    remove_it(&scene);
    end(&scene);
}

TEST(test_whoever_waits_is_told_before_the_container_is_gone)
{
    Scene scene = begin(false);
    Problem problem = PROBLEM_NULL;
    const EngineOps *ops = scene.engine->ops;

    assert_int_equal(ops->attach_packages(scene.container, PACKAGES, &done, &problem), ATTACH_ASKED);
    remove_it(&scene);
    assert_string_equal(told, "-3 removed");
    end(&scene);
}
