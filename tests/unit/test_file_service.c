/* The file service, asked by somebody who means harm, and by somebody who does not. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "host/file_service/file_service.h"
#include "host/files/beneath.h"
#include "host/files/session_disk.h"
#include "host/files/tree.h"
#include "host/files/watch.h"
#include "tests/support/cmocka.h"
#include "tests/unit/file_service_asks.h"

static char state_dir[64];
static Loop *loop;
static FileService *file_service;

/* The last answer. */
static struct {
    uint64_t id;
    Buf bytes;
    Descriptors descriptors;
    size_t n;
} answered;

static void forget_answer(void)
{
    buf_deinit(&answered.bytes);
    descriptors_close(&answered.descriptors);
    answered.n = 0;
}

static void on_answer(void *userdata, uint64_t id, Buf *bytes, Descriptors *descriptors)
{
    forget_answer();
    answered.id = id;
    answered.bytes = *bytes;
    answered.descriptors = *descriptors;
    answered.n++;
    loop_stop(loop, 1);
}

static int set_up_with(bool has_disks)
{
    const FileServiceConfig config = {.state_dir = state_dir, .has_disks = has_disks, .answer = on_answer};

    umask(022);
    strcpy(state_dir, "/tmp/limpet-test-XXXXXX");
    assert_non_null(mkdtemp(state_dir));
    assert_int_equal(loop_new(&loop), 0);
    assert_int_equal(file_service_new(&file_service, loop, &config), 0);
    return 0;
}

static int set_up(void **state)
{
    return set_up_with(false);
}

static int set_up_disks(void **state)
{
    return set_up_with(true);
}

static int tear_down(void **state)
{
    file_service_free(file_service);
    forget_answer();
    loop_free(loop);
    assert_int_equal(remove_path(state_dir), 0);
    return 0;
}

static uint64_t last_id;
static Descriptors no_descriptors;

static void begin_with(JobKind kind, const void *request, Descriptors *passed)
{
    Problem problem = PROBLEM_NULL;
    Buf bytes = file_service_request(kind, ++last_id, request);

    answered.n = 0;
    assert_int_equal(file_service_take(file_service, &bytes, passed, &problem), 0);
}

static void begin(JobKind kind, const void *request)
{
    begin_with(kind, request, &no_descriptors);
}

/* Waits for the answer: ERR_NONE when it was done. */
static ErrorCode await_answer(void)
{
    Problem problem = PROBLEM_NULL;
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;

    while (answered.n == 0)
        loop_run(loop);
    assert_int_equal(answered.n, 1);
    assert_int_equal(answered.id, last_id);
    assert_int_equal(message_decode(&message, buf_head(&answered.bytes), answered.bytes.size, &problem), 0);
    return file_service_answer_error(&message);
}

static ErrorCode ask(JobKind kind, const void *request)
{
    begin(kind, request);
    return await_answer();
}

#define ASK(kind, ...)   ask(JOB_##kind, &(FILE_SERVICE_REQUEST(kind)){__VA_ARGS__})
#define BEGIN(kind, ...) begin(JOB_##kind, &(FILE_SERVICE_REQUEST(kind)){__VA_ARGS__})
#define PREPARE(name, ...)                                                                                   \
    ASK(PREPARE, .id = text_of(name), .reader = NO_UINT, .bytes = 1 << 20, .files = 1000, __VA_ARGS__)
#define ADOPT(name, ...)                                                                                     \
    ASK(ADOPT, .id = text_of(name), .reader = NO_UINT, .bytes = 1 << 20, .files = 1000, __VA_ARGS__)

static void make_session(const char *id)
{
    assert_int_equal(PREPARE(id, .as = text_of(id)), ERR_NONE);
}

static const char *path_of(const char *name)
{
    static char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", state_dir, name);
    return path;
}

static const char *path_of_session(const char *id)
{
    static _Thread_local char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/sessions/%s", state_dir, id);
    return path;
}

static void write_file(const char *name, const char *text)
{
    int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static bool exists(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

TEST_WITH(test_a_life, set_up, tear_down)
{
    Text one = text_of("one");

    make_session("one");
    assert_true(exists("sessions/one/files/artifacts"));
    assert_int_equal(answered.descriptors.n, 1); /* from now on this says that there is something */
    int watch = dup(answered.descriptors.fd[0]);
    assert_int_equal(watch_queued(watch), 0);
    write_file("sessions/one/files/artifacts/a", "text");
    assert_true(watch_queued(watch) > 0);
    close(watch);
    assert_int_equal(ASK(PUBLISH, .id = one), ERR_NONE);
    assert_true(exists("sessions/one/artifacts/a"));
    assert_int_equal(ASK(PUT, .id = one, .path = text_of("x"), .data = text_of("yz"), .last = true),
                     ERR_NONE);
    assert_true(exists("sessions/one/files/x"));
    assert_int_equal(ASK(TAKE, .id = one, .budget = 1 << 20), ERR_NONE);
    assert_int_equal(ASK(KEEP, .id = one, .checkpoint = text_of("c1"), .bytes = 4096), ERR_NONE);
    assert_int_equal(ASK(STAGE, .id = one, .checkpoint = text_of("c1")), ERR_NONE);
    assert_int_equal(ASK(RESTORE, .id = one), ERR_NONE);
    assert_int_equal(ASK(LIST, .id = one), ERR_NONE);
    assert_int_equal(ASK(PRUNE, .id = one, .checkpoints = {.source = NULL}), ERR_NONE);
    assert_int_equal(ASK(STAGE, .id = one, .checkpoint = text_of("c1")), ERR_NO_SUCH_CHECKPOINT);
    assert_int_equal(ASK(REMOVE, .id = one), ERR_NONE);
    assert_false(exists("sessions/one/files"));
    assert_true(exists("sessions/one/artifacts/a"));
}

/* Another process holds the copies of the session; a thread waits for that, and others go on. */
TEST_WITH(test_copies_of_a_session_take_one_thread, set_up, tear_down)
{
    Text one = text_of("one"), other = text_of("other");
    int store;

    make_session("one");
    make_session("other");
    write_file("sessions/other/files/x", "text");
    assert_int_equal(ASK(TAKE, .id = one, .budget = 1 << 20), ERR_NONE);
    store = open(path_of("sessions/one/checkpoints"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(store, LOCK_EX), 0);
    for (int i = 0; i < 4; i++)
        BEGIN(TAKE, .id = one, .budget = 1 << 20);
    alarm(60);
    assert_int_equal(ASK(GET, .id = other, .path = text_of("x"), .size = 4), ERR_NONE);
    assert_int_equal(flock(store, LOCK_UN), 0);
    for (int i = 0; i < 4; i++) {
        answered.n = 0;
        while (answered.n == 0)
            loop_run(loop);
    }
    alarm(0);
    close(store);
}

/* ---- what takes long ---- */

static sem_t gate;

/* Makes the disk of a session whose name begins with "slow" once the gate opens, and any other at once: both
 * a directory. */
static int make_when_open(void *userdata, const char *id, DiskSize size, Problem *problem)
{
    int session, r;

    if (strncmp(id, "slow", 4) == 0)
        sem_wait(&gate);
    session = open(path_of_session(id), O_PATH | O_DIRECTORY | O_CLOEXEC);
    r = session_disk_fill(session, "files", "scratch");
    close(session);
    return r;
}

/* A user has three under way at most: see file_service_client.c. */
TEST_WITH(test_disks_of_one_user_delay_no_other, set_up_disks, tear_down)
{
    static const DiskMaker maker = {.make = make_when_open};
    static const char *const slow[] = {"slow-1", "slow-2", "slow-3"};

    sem_init(&gate, 0, 0);
    disk_maker_set(&maker);
    for (size_t i = 0; i < ARRAY_SIZE(slow); i++)
        BEGIN(PREPARE, .id = text_of(slow[i]), .reader = NO_UINT, .disk = true, .bytes = 64 << 20,
              .files = 1000);
    assert_int_equal(ASK(PREPARE, .id = text_of("other"), .reader = NO_UINT, .disk = true, .bytes = 64 << 20,
                         .files = 1000),
                     ERR_NONE);
    for (size_t i = 0; i < ARRAY_SIZE(slow); i++)
        sem_post(&gate);
    while (file_service_jobs(file_service) > 0)
        loop_run(loop);
    disk_maker_set(NULL);
    sem_destroy(&gate);
}

/* Mounts a file system that answers nothing. A descriptor that ends it, and one of its root in *ret_root. */
static int mount_dead(const char *path, int *ret_root)
{
    int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    char options[64];

    snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
    if (device < 0 || mkdir(path, 0700) < 0 || mount("dead", path, "fuse", 0, options) < 0) {
        close_fd(&device);
        return -1;
    }
    *ret_root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return device;
}

TEST_WITH(test_removing_delays_no_publishing, set_up, tear_down)
{
    static const char *const ids[] = {"a", "b", "c", "d"};
    int devices[ARRAY_SIZE(ids)], roots[ARRAY_SIZE(ids)];
    char dead[PATH_MAX], link[FD_PATH_SIZE];

    make_session("other");
    for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
        make_session(ids[i]);
        snprintf(dead, sizeof(dead), "%s/sessions/%s/files/dead", state_dir, ids[i]);
        devices[i] = mount_dead(dead, &roots[i]);
        if (devices[i] < 0)
            skip();
        assert_int_equal(ASK(REMOVE, .id = text_of(ids[i])), ERR_NONE);
    }
    write_file("sessions/other/files/artifacts/a", "text");
    assert_int_equal(ASK(PUBLISH, .id = text_of("other")), ERR_NONE);
    for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
        ssize_t n = readlink(fd_path(link, roots[i]), dead, sizeof(dead) - 1);

        assert_true(n > 0);
        dead[n] = '\0';
        close(roots[i]);
        close(devices[i]);
        assert_int_equal(umount2(dead, MNT_DETACH), 0);
    }
}

TEST_WITH(test_what_is_not_there, set_up, tear_down)
{
    Text none = text_of("none");

    assert_int_equal(ASK(PUBLISH, .id = none), ERR_BAD_REQUEST);
    assert_int_equal(ASK(GET, .id = none, .path = text_of("x"), .size = 1), ERR_BAD_REQUEST);
    assert_int_equal(ASK(RESTORE, .id = none), ERR_BAD_REQUEST);
    assert_int_equal(ASK(REMOVE, .id = none), ERR_BAD_REQUEST);
    assert_int_equal(PREPARE("none"), ERR_NONE);
    assert_int_equal(ASK(PUBLISH, .id = none), ERR_INTERNAL); /* it has no place for that */
}

/* Nothing is left of a session that cannot be prepared, and one that is being prepared is nobody's. */
TEST_WITH(test_preparing, set_up, tear_down)
{
    Text one = text_of("one");

    assert_int_not_equal(PREPARE("one", .as = one, .template = text_of("none")), ERR_NONE);
    assert_false(exists("sessions/one"));
    assert_int_equal(ASK(REMOVE, .id = one), ERR_BAD_REQUEST);
    BEGIN(PREPARE, .id = one, .as = one, .reader = NO_UINT, .bytes = 1 << 20, .files = 1000);
    assert_int_equal(ASK(PUBLISH, .id = one), ERR_BUSY);
    answered.n = 0;
    while (answered.n == 0)
        loop_run(loop);
    assert_int_equal(ASK(PUBLISH, .id = one), ERR_NONE);
}

static ErrorCode keep_image(const char *id, uint64_t bytes, uint64_t budget)
{
    Descriptors passed = {0};
    int fd = memfd_create("image", MFD_CLOEXEC);

    assert_int_equal(write(fd, "memory", 6), 6);
    descriptors_add(&passed, fd);
    begin_with(JOB_KEEP_IMAGE, &(JobImage){.image = text_of(id), .bytes = bytes, .budget = budget}, &passed);
    descriptors_close(&passed);
    return await_answer();
}

static void write_kept(Writer *w, const void *source)
{
    write_array(w, 1);
    write_text(w, source);
}

/* Never more than is said, also where the file has grown; and what is given out stays as it is. */
TEST_WITH(test_memory_images, set_up, tear_down)
{
    char text[8] = "";
    struct stat st;

    assert_int_equal(keep_image("one", 5, 1 << 20), ERR_NONE);
    assert_int_equal(fstat(answered.descriptors.fd[0], &st), 0);
    assert_int_equal(st.st_size, 5);
    assert_int_equal(keep_image("two", 7, 1 << 20), ERR_INTERNAL); /* there are 6 */
    assert_int_equal(keep_image("two", 6, 10), ERR_INTERNAL);
    assert_false(exists("memory-images/two") || exists("memory-images/.two"));
    assert_int_equal(keep_image("..", 5, 1 << 20), ERR_BAD_REQUEST);
    assert_int_equal(ASK(KEEP_IMAGE, .image = text_of("two"), .bytes = 6, .budget = 1 << 20), ERR_INTERNAL);
    assert_int_equal(keep_image("two", 6, 1 << 20), ERR_NONE);
    assert_int_equal(ASK(OPEN_IMAGE, .image = text_of("none")), ERR_INTERNAL);
    assert_int_equal(ASK(OPEN_IMAGE, .image = text_of("one")), ERR_NONE);
    assert_int_equal(pread(answered.descriptors.fd[0], text, sizeof(text), 0), 5);
    assert_string_equal(text, "memor");
    assert_int_equal(pwrite(answered.descriptors.fd[0], "x", 1, 0), -1);
    assert_int_equal(ASK(SWEEP_IMAGES, .images = {.write = write_kept, .source = "two"}), ERR_NONE);
    assert_false(exists("memory-images/one"));
    assert_true(exists("memory-images/two"));
}

/* Has the memory of a session copied; returns where it is written to. */
static int begin_memory(const char *id, uint64_t budget)
{
    Descriptors passed = {0};
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    descriptors_add(&passed, ends[0]);
    begin_with(JOB_TAKE_MEMORY, &(JobTakeMemory){.id = text_of(id), .budget = budget}, &passed);
    descriptors_close(&passed);
    return ends[1];
}

TEST_WITH(test_memory_through_a_pipe, set_up, tear_down)
{
    int pipe, copy;
    char text[8] = "";
    struct stat st;

    make_session("one");
    pipe = begin_memory("one", 6);
    assert_int_equal(write(pipe, "mem", 3), 3);
    assert_int_equal(write(pipe, "ory", 3), 3);
    close(pipe);
    assert_int_equal(await_answer(), ERR_NONE);
    copy = answered.descriptors.fd[0];
    assert_int_equal(read(copy, text, sizeof(text)), 6);
    assert_string_equal(text, "memory");
    assert_int_equal(fcntl(copy, F_GETFL) & O_ACCMODE, O_RDONLY);
    assert_int_equal(fstat(copy, &st), 0);
    assert_int_equal(st.st_nlink, 0);
    assert_int_equal(st.st_mode, S_IFREG | 0400);

    signal(SIGPIPE, SIG_IGN);
    pipe = begin_memory("one", 5);
    assert_int_equal(write(pipe, "memory", 6), 6);
    assert_int_equal(await_answer(), ERR_TOO_LARGE);
    assert_int_equal(answered.descriptors.n, 0);
    assert_int_equal(write(pipe, "more", 4), -1);
    close(pipe);
    assert_int_equal(ASK(TAKE_MEMORY, .id = text_of("one"), .budget = 6), ERR_INTERNAL);
}
