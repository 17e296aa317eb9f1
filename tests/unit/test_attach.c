/* Needs the right to mount; otherwise it is skipped. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "host/engine/attach.h"
#include "tests/support/cmocka.h"

#define CONTAINERS 300

/* root/ is what the containers have as their root; data/ is what they get. */
static int data_fd;
static char root[64], data[64], home[] = "/tmp/limpet-attach-XXXXXX";

/* A process with a root of its own, as a runtime leaves one. */
static void contain(int ready)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount(root, root, NULL, MS_BIND, NULL) < 0 || chdir(root) < 0 ||
        syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || write(ready, "", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static pid_t container_start(int *ret_pidfd)
{
    int ready[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        contain(ready[1]);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    *ret_pidfd = pidfd_open(pid, 0);
    assert_true(*ret_pidfd >= 0);
    return pid;
}

static void container_end(pid_t pid, int pidfd)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(pidfd);
}

/* The mount point, in the process's mount namespace, of what shows data/; "" when there is none. */
static void find_data(pid_t pid, char ret[256])
{
    char path[64], line[1024], shown[256], point[256], suffix[64];
    size_t length = (size_t)snprintf(suffix, sizeof(suffix), "%s/data", strrchr(home, '/'));
    FILE *file;

    *ret = '\0';
    snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int)pid);
    file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file))
        if (sscanf(line, "%*s %*s %*s %255s %255s", shown, point) == 2 && strlen(shown) >= length &&
            strcmp(shown + strlen(shown) - length, suffix) == 0)
            strcpy(ret, point);
    fclose(file);
}

static void path_in(char *ret, size_t size, const char *directory, const char *name)
{
    snprintf(ret, size, "%s/%s", directory, name);
}

static int set_up(void **state)
{
    char path[128];

    if (!mkdtemp(home))
        return -1;
    path_in(root, sizeof(root), home, "root");
    path_in(data, sizeof(data), home, "data");
    mkdir(root, 0755);
    mkdir(data, 0755);
    data_fd = open(data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(data_fd >= 0);
    path_in(path, sizeof(path), root, "data");
    return mkdir(path, 0755);
}

static int tear_down(void **state)
{
    static const char *const names[] = {"root/data", "root/other", "root/session", "root", "data"};
    char path[128];

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        path_in(path, sizeof(path), home, names[i]);
        if (rmdir(path) < 0)
            unlink(path);
    }
    return rmdir(home);
}

static void needs_mounts(void)
{
    pid_t pid = fork();
    int status;

    if (pid == 0)
        _exit(unshare(CLONE_NEWNS) < 0);
    waitpid(pid, &status, 0);
    if (status != 0)
        skip();
}

TEST(test_it_is_seen_inside_alone)
{
    Problem problem = PROBLEM_NULL;
    char point[256];
    int pidfd;
    pid_t pid;

    needs_mounts();
    pid = container_start(&pidfd);
    assert_int_equal(attach_data(pidfd, data_fd, true, &problem), 0);
    find_data(pid, point);
    assert_string_equal(point, "/data");
    find_data(getpid(), point);
    assert_string_equal(point, "");
    assert_int_equal(attach_data(pidfd, data_fd, true, &problem), 0); /* in place of the first */
    container_end(pid, pidfd);
}

TEST(test_ended)
{
    Problem problem = PROBLEM_NULL;
    siginfo_t info;
    int pidfd;
    pid_t pid;

    needs_mounts();
    pid = container_start(&pidfd);
    kill(pid, SIGKILL);
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT); /* not reaped yet */
    assert_int_equal(attach_data(pidfd, data_fd, true, &problem), -ESRCH);
    waitpid(pid, NULL, 0);
    assert_int_equal(attach_data(pidfd, data_fd, true, &problem), -ESRCH);
    assert_string_equal(problem.text, "the container has ended");
    close(pidfd);
}

/* Without the right to mount. */
TEST(test_other_user)
{
    Problem problem = PROBLEM_NULL;
    int pidfd, status;
    pid_t pid, other;

    needs_mounts();
    chmod(home, 0755);
    pid = container_start(&pidfd);
    other = fork();
    if (other == 0)
        _exit(setresuid(65534, 65534, 65534) == 0 &&
                      attach_data(pidfd, data_fd, true, &problem) == -EOPNOTSUPP
                  ? 0
                  : 1);
    waitpid(other, &status, 0);
    assert_int_equal(status, 0);
    container_end(pid, pidfd);
}

/* The most that a hostile container could do: /data is now a directory, now a link. */
static atomic_bool swapping;

static void *swap(void *userdata)
{
    char first[128], second[128];

    path_in(first, sizeof(first), root, "data");
    path_in(second, sizeof(second), root, "other");
    while (atomic_load(&swapping))
        renameat2(AT_FDCWD, first, AT_FDCWD, second, RENAME_EXCHANGE);
    return NULL;
}

TEST(test_directory_that_turns_into_a_link)
{
    unsigned mounted = 0, refused = 0;
    char path[128], point[256];
    pthread_t swapper;

    needs_mounts();
    path_in(path, sizeof(path), root, "session");
    mkdir(path, 0755);
    path_in(path, sizeof(path), root, "other");
    assert_int_equal(symlink("session", path), 0);
    atomic_store(&swapping, true);
    assert_int_equal(pthread_create(&swapper, NULL, swap, NULL), 0);
    for (unsigned i = 0; i < CONTAINERS || mounted == 0 || refused == 0; i++) {
        Problem problem = PROBLEM_NULL;
        int pidfd, r;
        pid_t pid = container_start(&pidfd);

        r = attach_data(pidfd, data_fd, true, &problem);
        find_data(pid, point);
        if (r == 0)
            assert_true(strcmp(point, "/data") == 0 || strcmp(point, "/other") == 0);
        else
            assert_string_equal(point, "");
        mounted += r == 0;
        refused += r == -ELOOP || r == -ENOTDIR;
        container_end(pid, pidfd);
    }
    atomic_store(&swapping, false);
    pthread_join(swapper, NULL);
}

int main(void)
{
    return tests_run(set_up, tear_down);
}
