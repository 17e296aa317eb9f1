/* The controller's end of the files worker, with a worker in a process of its own. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/file_service/client/file_service_client.h"
#include "host/file_service/process/serve.h"
#include "host/files/tree.h"
#include "tests/support/cmocka.h"

#define ALICE 61001u
#define BOB   61002u
#define MANY  100

static struct {
    char state_dir[64];
    Loop *loop;
    FileServiceClient *client;
    pid_t worker;
    unsigned done, failed;
} t;

static void on_done(void *userdata, FileServiceAnswer *answer)
{
    t.done++;
    t.failed += answer->problem != NULL;
    loop_stop(t.loop, 0);
}

static int set_up(void **state)
{
    int between[2], launcher[2];

    memset(&t, 0, sizeof(t));
    strcpy(t.state_dir, "/tmp/limpet-test-XXXXXX");
    assert_non_null(mkdtemp(t.state_dir));
    assert_int_equal(ipc_pair(between), 0);
    assert_int_equal(ipc_pair(launcher), 0);
    t.worker = fork();
    if (t.worker == 0) {
        const FilesWorker worker = {
            .state_dir = t.state_dir, .controller = between[1], .launcher = launcher[1]};
        Problem problem = PROBLEM_NULL;

        close(between[0]);
        _exit(files_worker_run(&worker, &problem) < 0);
    }
    close(between[1]);
    close(launcher[1]);
    assert_int_equal(loop_new(&t.loop), 0);
    assert_int_equal(file_service_client_connect(&t.client, t.loop, between[0]), 0);
    alarm(60);
    return 0;
}

static int tear_down(void **state)
{
    alarm(0);
    kill(t.worker, SIGCONT);
    file_service_client_free(t.client);
    assert_int_equal(waitpid(t.worker, NULL, 0), t.worker);
    loop_free(t.loop);
    return remove_path(t.state_dir);
}

static void on_made(void *userdata, FileServiceAnswer *answer)
{
    assert_null(answer->problem);
    *(bool *)userdata = true;
    loop_stop(t.loop, 0);
}

static void make_session(const char *id)
{
    const JobPrepare prepare = {
        .id = text_of(id), .as = text_of(id), .reader = NO_UINT, .bytes = 1 << 20, .files = 1000};
    bool made = false;

    assert_int_equal(file_service_ask(t.client, ALICE, JOB_PREPARE, &prepare, on_made, &made), 0);
    while (!made)
        loop_run(t.loop);
}

static void begin_copy(uid_t user, const char *id)
{
    const JobTake take = {.id = text_of(id), .budget = 1 << 20};

    assert_int_equal(file_service_ask(t.client, user, JOB_TAKE, &take, on_done, NULL), 0);
}

static void wait_for(unsigned done)
{
    while (t.done < done)
        loop_run(t.loop);
    assert_int_equal(t.failed, 0);
}

/* Keeps the copies of a session back, as another process may. */
static int hold(const char *id)
{
    char path[PATH_MAX];
    int store;

    make_session(id);
    begin_copy(ALICE, id);
    wait_for(1);
    snprintf(path, sizeof(path), "%s/sessions/%s/checkpoints", t.state_dir, id);
    store = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(store, LOCK_EX), 0);
    return store;
}

TEST_WITH(test_many_slow_jobs_hold_up_no_fast_one, set_up, tear_down)
{
    int store = hold("one");

    for (int i = 0; i < MANY; i++)
        begin_copy(ALICE, "one");
    make_session("two");
    close(store);
    wait_for(1 + MANY);
}

TEST_WITH(test_one_user_s_jobs_hold_up_no_other_s, set_up, tear_down)
{
    int store = hold("one");

    make_session("bob-s");
    for (int i = 0; i < MANY; i++)
        begin_copy(ALICE, "one");
    begin_copy(BOB, "bob-s");
    wait_for(2);
    close(store);
    wait_for(2 + MANY);
}
