#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/sessiondir.h"
#include "host/files/tree.h"
#include "tests/support/cmocka.h"

static char state_dir[64];
static Problem problem;
static SessionDir directory;

static int set_up(void **state)
{
    umask(077);
    strcpy(state_dir, "/tmp/limpet-test-XXXXXX");
    assert_non_null(mkdtemp(state_dir));
    directory = SESSIONDIR_NULL;
    return 0;
}

static int tear_down(void **state)
{
    sessiondir_remove(&directory, NULL);
    assert_int_equal(remove_path(state_dir), 0);
    return 0;
}

static mode_t mode_of(const char *path)
{
    struct stat st;

    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    return st.st_mode & 07777;
}

static void make_file(const char *parent, const char *name)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", parent, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    close(fd);
}

static bool exists(const char *format, const char *name)
{
    char path[PATH_MAX] = "";

    snprintf(path, sizeof(path), "%s/%s/%s", state_dir, format, name);
    return access(path, F_OK) == 0;
}

static size_t count_names(const char *name)
{
    char path[PATH_MAX];
    size_t n = 0;

    snprintf(path, sizeof(path), "%s/%s", state_dir, name);
    DIR *stream = opendir(path);
    if (!stream)
        return 0;
    for (struct dirent *entry; (entry = readdir(stream));)
        n += entry->d_name[0] != '.';
    closedir(stream);
    return n;
}

TEST_WITH(test_pinned, set_up, tear_down)
{
    char path[PATH_MAX];

    assert_int_equal(sessiondir_make(&directory, state_dir, "one", false, NULL, &problem), 0);
    assert_int_equal(sessiondir_fill(&directory, NULL, &problem), 0);
    assert_int_equal(mode_of(directory.files_path), 01777);
    assert_int_equal(mode_of(directory.artifacts_root), 01777);
    assert_int_equal(mode_of(directory.published_path), 0755);
    snprintf(path, sizeof(path), "%s/.limpet", directory.files_path);
    assert_int_equal(mode_of(path) & ~070u, 0705); /* the list of users shows as the group's part */
    snprintf(path, sizeof(path), "%s/sessions", state_dir);
    assert_int_equal(mode_of(path), 0700);
    assert_null(directory.work_artifacts_root);
    assert_true(directory.files_fd >= 0);

    snprintf(path, sizeof(path), "%s/sessions/one/scratch/tmp", state_dir);
    assert_int_equal(mode_of(path), 01777);

    make_file(path, "left");
    make_file(directory.files_path, "left");
    make_file(directory.published_path, "kept");
    sessiondir_remove(&directory, NULL);
    assert_null(directory.files_path);
    assert_false(exists("sessions/one", "files"));
    assert_false(exists("sessions/one", "scratch"));
    assert_true(exists("sessions/one/artifacts", "kept"));
    assert_int_equal(count_names("removed"), 0);

    assert_int_equal(sessiondir_make(&directory, state_dir, "one", false, NULL, &problem), 0);
    assert_int_equal(sessiondir_fill(&directory, NULL, &problem), 0);
    assert_false(exists("sessions/one/files", "left"));
    assert_true(exists("sessions/one/artifacts", "kept"));
}

TEST_WITH(test_nothing_published_leaves_nothing, set_up, tear_down)
{
    assert_int_equal(sessiondir_make(&directory, state_dir, "one", false, NULL, &problem), 0);
    assert_int_equal(sessiondir_fill(&directory, NULL, &problem), 0);
    sessiondir_remove(&directory, NULL);
    assert_int_equal(count_names("sessions"), 0);

    assert_int_equal(sessiondir_make(&directory, state_dir, "0123", true, NULL, &problem), 0);
    assert_int_equal(sessiondir_fill(&directory, NULL, &problem), 0);
    sessiondir_remove(&directory, NULL);
    assert_int_equal(count_names("sessions"), 0);
    assert_int_equal(count_names("outputs"), 0);
}

TEST_WITH(test_ephemeral, set_up, tear_down)
{
    assert_int_equal(sessiondir_make(&directory, state_dir, "0123", true, NULL, &problem), 0);
    assert_int_equal(sessiondir_fill(&directory, NULL, &problem), 0);
    assert_int_equal(mode_of(directory.work_artifacts_root), 01777);
    assert_int_equal(mode_of(directory.published_path), 0755);
    assert_string_not_equal(directory.published_path, directory.work_published_path);
    make_file(directory.work_published_path, "kept");
    make_file(directory.work_artifacts_root, "left");
    sessiondir_remove(&directory, NULL);
    assert_true(exists("outputs/0123/work", "kept"));
    assert_false(exists("outputs/0123", "session"));
    assert_int_equal(count_names("sessions"), 0);
    assert_int_equal(count_names("removed"), 0);
}

/* A new life may begin while the files of the last are still being removed. */
TEST_WITH(test_remove_in_the_background, set_up, tear_down)
{
    Loop *loop;
    Worker *worker;

    assert_int_equal(loop_new(&loop), 0);
    assert_int_equal(worker_new(&worker, loop, 2, 5), 0);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(sessiondir_make(&directory, state_dir, "one", false, NULL, &problem), 0);
        assert_int_equal(sessiondir_fill(&directory, NULL, &problem), 0);
        assert_false(exists("sessions/one/files", "left"));
        make_file(directory.files_path, "left");
        sessiondir_remove(&directory, worker);
    }
    worker_free(worker);
    loop_free(loop);
    assert_int_equal(count_names("removed"), 0);
    assert_int_equal(count_names("sessions"), 0);
}

static bool is_named(void *userdata, const char *id)
{
    return strcmp(userdata, id) == 0;
}

TEST_WITH(test_sweep, set_up, tear_down)
{
    SessionDir lost;
    char path[PATH_MAX];

    assert_int_equal(sessiondir_make(&lost, state_dir, "one", false, NULL, &problem), 0);
    assert_int_equal(sessiondir_fill(&lost, NULL, &problem), 0);
    make_file(lost.published_path, "kept");
    assert_int_equal(sessiondir_make(&directory, state_dir, "0123", true, NULL, &problem), 0);
    assert_int_equal(sessiondir_fill(&directory, NULL, &problem), 0);
    snprintf(path, sizeof(path), "%s/removed", state_dir);
    make_file(path, "half-removed");

    sessiondir_sweep(state_dir, NULL, is_named, (char *)"one");
    assert_true(exists("sessions/one", "files"));
    assert_int_equal(count_names("sessions"), 1);
    sessiondir_sweep(state_dir, NULL, is_named, (char *)"");
    assert_true(exists("sessions/one/artifacts", "kept"));
    assert_false(exists("sessions/one", "files"));
    assert_int_equal(count_names("sessions"), 1);
    assert_int_equal(count_names("outputs"), 0);
    assert_int_equal(count_names("removed"), 1);
    sessiondir_sweep_removed(state_dir, NULL);
    assert_int_equal(count_names("removed"), 0);
    sessiondir_remove(&lost, NULL);
}

/* A later process goes on with what is there, but for uploads that were broken off. */
TEST_WITH(test_adopt, set_up, tear_down)
{
    SessionDir ours;
    char path[PATH_MAX];

    assert_int_equal(sessiondir_make(&directory, state_dir, "0123", true, NULL, &problem), 0);
    assert_int_equal(sessiondir_fill(&directory, NULL, &problem), 0);
    make_file(directory.files_path, "left");
    snprintf(path, sizeof(path), "%s/.limpet", directory.files_path);
    make_file(path, "put-1");
    make_file(path, "stdout-1");
    snprintf(path, sizeof(path), "%s/sessions/0123/checkpoints", state_dir);
    assert_int_equal(mkdir(path, 0700), 0);
    make_file(path, "kept");

    assert_int_equal(sessiondir_adopt(&ours, state_dir, "0123", "0123", NO_READER, true, false, &problem), 0);
    assert_string_equal(ours.files_path, directory.files_path);
    assert_string_equal(ours.work_published_path, directory.work_published_path);
    assert_true(ours.files_fd >= 0);
    assert_true(exists("sessions/0123/files", "left"));
    assert_true(exists("sessions/0123/files/.limpet", "stdout-1"));
    assert_false(exists("sessions/0123/files/.limpet", "put-1"));
    sessiondir_deinit(&ours);
    assert_true(exists("sessions/0123/files", "left"));

    assert_int_equal(sessiondir_adopt(&ours, state_dir, "0123", "0123", NO_READER, true, false, &problem), 0);
    sessiondir_remove(&ours, NULL);
    assert_int_equal(count_names("sessions"), 0);
    assert_true(sessiondir_adopt(&ours, state_dir, "0123", "0123", NO_READER, true, false, &problem) < 0);
    sessiondir_remove(&ours, NULL);
}

/* A session takes over what was made for nobody, and where it is. */
TEST_WITH(test_claim, set_up, tear_down)
{
    char files[PATH_MAX];
    SessionDir earlier;

    assert_int_equal(sessiondir_make(&earlier, state_dir, "one", false, NULL, &problem), 0);
    assert_int_equal(sessiondir_fill(&earlier, NULL, &problem), 0);
    make_file(earlier.files_path, "left");
    make_file(earlier.published_path, "kept");
    sessiondir_deinit(&earlier); /* as if its controller had been killed */

    assert_int_equal(sessiondir_make_spare(&directory, state_dir, "~1", false, NULL, &problem), 0);
    assert_int_equal(sessiondir_fill(&directory, NULL, &problem), 0);
    assert_null(directory.published_path);
    make_file(directory.files_path, "ours");
    snprintf(files, sizeof(files), "%s", directory.files_path);
    assert_int_equal(sessiondir_claim(&directory, "one", NO_READER, NULL, &problem), 0);
    assert_string_equal(directory.files_path, files);
    assert_true(exists("sessions/~1/files", "ours"));
    assert_false(exists("sessions/one", "files"));
    assert_true(exists("sessions/one/artifacts", "kept"));
    assert_true(sessiondir_uses(&directory, "one") && sessiondir_uses(&directory, "~1"));
    assert_false(sessiondir_uses(&directory, "two"));

    assert_int_equal(sessiondir_adopt(&earlier, state_dir, "~1", "one", NO_READER, false, false, &problem),
                     0);
    assert_string_equal(earlier.published_path, directory.published_path);
    sessiondir_deinit(&earlier);
    sessiondir_remove(&directory, NULL);
    assert_int_equal(count_names("sessions"), 1);
    assert_true(exists("sessions/one/artifacts", "kept"));

    assert_int_equal(sessiondir_make_spare(&directory, state_dir, "~2", false, NULL, &problem), 0);
    assert_int_equal(sessiondir_fill(&directory, NULL, &problem), 0);
    sessiondir_deinit(&directory); /* likewise, and before it had claimed anything */
    assert_int_equal(sessiondir_adopt(&directory, state_dir, "~2", "two", NO_READER, false, false, &problem),
                     0);
    assert_true(exists("sessions/two", "artifacts"));
    sessiondir_remove(&directory, NULL);
}

typedef struct Hold {
    WorkerJob job;
    sem_t go;
} Hold;

static void hold_run(WorkerJob *job)
{
    sem_wait(&container_of(job, Hold, job)->go);
}

static void hold_done(WorkerJob *job)
{
    sem_destroy(&container_of(job, Hold, job)->go);
}

static void leave_files(void)
{
    SessionDir earlier;

    assert_int_equal(sessiondir_make(&earlier, state_dir, "one", false, NULL, &problem), 0);
    assert_int_equal(sessiondir_fill(&earlier, NULL, &problem), 0);
    make_file(earlier.files_path, "left");
    sessiondir_deinit(&earlier); /* as if its controller had been killed */
}

/* Nobody waits for the removal of what an earlier life left. */
TEST_WITH(test_what_was_left_is_removed_by_the_worker, set_up, tear_down)
{
    Worker *worker;
    Loop *loop;
    Hold hold;

    assert_int_equal(loop_new(&loop), 0);
    assert_int_equal(worker_new(&worker, loop, 1, 5), 0);
    sem_init(&hold.go, 0, 0);
    assert_int_equal(worker_submit(worker, &hold.job, hold_run, hold_done), 0);
    leave_files();
    assert_int_equal(sessiondir_make(&directory, state_dir, "one", false, worker, &problem), 0);
    assert_int_equal(count_names("removed"), 2); /* files and scratch */
    sessiondir_remove(&directory, NULL);
    leave_files();
    assert_int_equal(sessiondir_make_spare(&directory, state_dir, "~1", false, worker, &problem), 0);
    assert_int_equal(sessiondir_claim(&directory, "one", NO_READER, worker, &problem), 0);
    assert_false(exists("sessions/one", "files"));
    assert_int_equal(count_names("removed"), 4);
    sem_post(&hold.go);
    worker_free(worker);
    loop_free(loop);
    assert_int_equal(count_names("removed"), 0);
}

TEST_WITH(test_disclaim, set_up, tear_down)
{
    assert_int_equal(sessiondir_make_spare(&directory, state_dir, "~1", true, NULL, &problem), 0);
    assert_int_equal(sessiondir_fill(&directory, NULL, &problem), 0);
    assert_int_equal(count_names("outputs"), 0);
    assert_int_equal(sessiondir_claim(&directory, "0123", NO_READER, NULL, &problem), 0);
    assert_true(exists("outputs/0123", "session") && exists("outputs/0123", "work"));
    sessiondir_disclaim(&directory);
    assert_int_equal(count_names("outputs"), 0);
    assert_int_equal(count_names("sessions"), 1);
    assert_null(directory.published_path);

    assert_int_equal(sessiondir_claim(&directory, "0123", NO_READER, NULL, &problem), 0);
    make_file(directory.work_published_path, "kept");
    sessiondir_remove(&directory, NULL);
    assert_int_equal(count_names("sessions"), 0);
    assert_true(exists("outputs/0123/work", "kept"));
    assert_false(exists("outputs/0123", "session"));
}

/* Killed between a claim and its journal: a sweep finds all of it. */
TEST_WITH(test_sweep_claimed, set_up, tear_down)
{
    static const bool kinds[] = {false, true};

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        assert_int_equal(sessiondir_make_spare(&directory, state_dir, "~1", kinds[i], NULL, &problem), 0);
        assert_int_equal(sessiondir_fill(&directory, NULL, &problem), 0);
        assert_int_equal(sessiondir_claim(&directory, "0123", NO_READER, NULL, &problem), 0);
        sessiondir_deinit(&directory);
        sessiondir_sweep(state_dir, NULL, is_named, (char *)"");
        assert_int_equal(count_names("sessions"), 0);
        assert_int_equal(count_names("outputs"), 0);
    }
}

TEST_WITH(test_failure, set_up, tear_down)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/none", state_dir);
    assert_true(sessiondir_make(&directory, path, "one", false, NULL, &problem) < 0);
    assert_int_equal(problem.code, ERR_INTERNAL);
    make_file(state_dir, "outputs");
    assert_true(sessiondir_make(&directory, state_dir, "0123", true, NULL, &problem) < 0);
    assert_int_equal(count_names("sessions"), 0);
}
