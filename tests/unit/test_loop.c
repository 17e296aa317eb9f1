#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "proto/base/clock.h"
#include "proto/base/loop.h"
#include "tests/support/cmocka.h"

static Loop *loop;

static int set_up(void **state)
{
    return loop_new(&loop);
}

static int tear_down(void **state)
{
    loop = loop_free(loop);
    return 0;
}

/* Files */

typedef struct File {
    LoopFile file;
    int calls, stop_after;
    struct File *victim; /* removed by the callback */
} File;

static void on_ready(LoopFile *file, uint32_t events)
{
    File *f = container_of(file, File, file);

    assert_true(events & EPOLLIN);
    if (f->victim) {
        loop_file_remove(&f->victim->file);
        f->victim = NULL;
    }
    if (++f->calls == f->stop_after)
        loop_stop(loop, 7);
}

static int readable_fd(void)
{
    int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);

    assert_true(fd >= 0);
    return fd;
}

TEST_WITH(file_is_level_triggered, set_up, tear_down)
{
    File f = {.stop_after = 3};
    int fd = readable_fd();

    assert_int_equal(loop_file_add(loop, &f.file, fd, EPOLLIN, on_ready), 0);
    assert_int_equal(loop_run(loop), 7);
    assert_int_equal(f.calls, 3);
    loop_file_remove(&f.file);
    loop_file_remove(&f.file);
    assert_null(f.file.loop);
    close(fd);
}

typedef struct Twin {
    LoopFile file;
    struct Twin *other;
    int *told;
} Twin;

/* Both were found ready: which of them is told first is not ours to say. */
static void on_twin_ready(LoopFile *file, uint32_t events)
{
    Twin *twin = container_of(file, Twin, file);
    int told = ++*twin->told;

    assert_false(loop_file_is_due(file));
    assert_int_equal(loop_file_is_due(&twin->other->file), told == 1);
    if (told == 2)
        loop_stop(loop, 0);
}

TEST_WITH(file_is_due_until_it_is_told, set_up, tear_down)
{
    int told = 0, fds[] = {readable_fd(), readable_fd()};
    Twin twins[2] = {{.other = &twins[1], .told = &told}, {.other = &twins[0], .told = &told}};

    for (int i = 0; i < 2; i++) {
        assert_false(loop_file_is_due(&twins[i].file));
        assert_int_equal(loop_file_add(loop, &twins[i].file, fds[i], EPOLLIN, on_twin_ready), 0);
        assert_false(loop_file_is_due(&twins[i].file));
    }
    assert_int_equal(loop_run(loop), 0);
    assert_int_equal(told, 2);
    for (int i = 0; i < 2; i++) {
        assert_false(loop_file_is_due(&twins[i].file));
        loop_file_remove(&twins[i].file);
        close(fds[i]);
    }
}

static void on_due_stop(LoopTimer *timer)
{
    loop_stop(loop, 9);
}

TEST_WITH(changed_interest_counts, set_up, tear_down)
{
    File f = {.stop_after = 1};
    LoopTimer timer = {0};
    int fd = readable_fd();

    assert_int_equal(loop_file_add(loop, &f.file, fd, EPOLLIN, on_ready), 0);
    assert_int_equal(loop_file_change(&f.file, 0), 0);
    loop_timer_set(loop, &timer, clock_now(), on_due_stop);
    assert_int_equal(loop_run(loop), 9);
    assert_int_equal(f.calls, 0);
    assert_int_equal(loop_file_change(&f.file, EPOLLIN), 0);
    assert_int_equal(loop_run(loop), 7);
    loop_file_remove(&f.file);
    close(fd);
}

TEST_WITH(bad_descriptors_are_refused, set_up, tear_down)
{
    File f = {0};
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);

    assert_int_equal(loop_file_add(loop, &f.file, -1, EPOLLIN, on_ready), -EBADF);
    assert_int_equal(loop_file_add(loop, &f.file, fd, EPOLLIN, on_ready), -EPERM);
    assert_null(f.file.loop);
    close(fd);
}

/* Two files are ready in one batch, and the one that runs first removes the other: that must not run. */
TEST_WITH(removal_within_the_batch, set_up, tear_down)
{
    File a = {.stop_after = 2}, b = {.stop_after = 2};
    int fd_a = readable_fd(), fd_b = readable_fd();

    a.victim = &b;
    b.victim = &a;
    loop_file_add(loop, &a.file, fd_a, EPOLLIN, on_ready);
    loop_file_add(loop, &b.file, fd_b, EPOLLIN, on_ready);
    assert_int_equal(loop_run(loop), 7);
    assert_int_equal(MIN(a.calls, b.calls), 0);
    assert_int_equal(MAX(a.calls, b.calls), 2);
    loop_file_remove(&a.file);
    loop_file_remove(&b.file);
    close(fd_a);
    close(fd_b);
}

static void on_ready_free(LoopFile *file, uint32_t events)
{
    File *f = container_of(file, File, file);
    int fd = file->fd;

    loop_file_remove(file);
    close(fd);
    free(f);
    loop_stop(loop, 1);
}

/* Under AddressSanitizer this fails when the loop touches a source after its callback. */
TEST_WITH(a_callback_may_free_its_owner, set_up, tear_down)
{
    File *f = calloc(1, sizeof(*f));

    assert_int_equal(loop_file_add(loop, &f->file, readable_fd(), EPOLLIN, on_ready_free), 0);
    assert_int_equal(loop_run(loop), 1);
}

TEST_WITH(stop_before_run_counts, set_up, tear_down)
{
    loop_stop(loop, 3);
    assert_int_equal(loop_run(loop), 3);
    loop_stop(loop, 0);
    assert_int_equal(loop_run(loop), 0);
}

/* Timers */

#define TIMERS 200

typedef struct Timer {
    LoopTimer timer;
    int number;
} Timer;

static struct {
    int order[TIMERS];
    int count;
    uint64_t last_due;
} fired;

static void on_due(LoopTimer *timer)
{
    assert_false(loop_timer_is_set(timer));
    assert_true(clock_now() >= timer->due);
    assert_true(timer->due >= fired.last_due);
    fired.last_due = timer->due;
    fired.order[fired.count++] = container_of(timer, Timer, timer)->number;
}

TEST_WITH(timers_run_in_order, set_up, tear_down)
{
    Timer timers[TIMERS] = {0};
    LoopTimer end = {0};
    uint64_t start = clock_now();
    unsigned seed = 1;
    int expected = 0;

    fired.count = 0;
    fired.last_due = 0;
    for (int i = 0; i < TIMERS; i++) {
        timers[i].number = i;
        seed = seed * 1103515245 + 12345;
        loop_timer_set(loop, &timers[i].timer, start + (seed >> 16) % 5000000, on_due);
    }
    for (int i = 0; i < TIMERS; i += 3) { /* move some, cancel some */
        seed = seed * 1103515245 + 12345;
        loop_timer_set(loop, &timers[i].timer, start + (seed >> 16) % 5000000, on_due);
        if (i % 2 == 0) {
            loop_timer_cancel(&timers[i].timer);
            loop_timer_cancel(&timers[i].timer);
        }
    }
    for (int i = 0; i < TIMERS; i++)
        expected += loop_timer_is_set(&timers[i].timer);
    loop_timer_set(loop, &end, start + 6000000, on_due_stop);
    assert_int_equal(loop_run(loop), 9);
    assert_int_equal(fired.count, expected);
    for (int i = 0; i < fired.count; i++)
        assert_false(fired.order[i] % 6 == 0);
}

static int again_left;

static void on_due_again(LoopTimer *timer)
{
    if (--again_left == 0)
        loop_stop(loop, 2);
    assert_int_equal(loop_timer_set(loop, timer, 0, on_due_again), 0);
}

/* A timer that is always due must not keep files from being looked at. */
TEST_WITH(overdue_timer_does_not_starve_files, set_up, tear_down)
{
    File f = {.stop_after = 3};
    LoopTimer timer = {0};
    int fd = readable_fd();

    again_left = 1000000;
    loop_file_add(loop, &f.file, fd, EPOLLIN, on_ready);
    loop_timer_set(loop, &timer, 0, on_due_again);
    assert_int_equal(loop_run(loop), 7);
    loop_file_remove(&f.file);
    again_left = 5;
    assert_int_equal(loop_run(loop), 2);
    loop_timer_cancel(&timer);
    close(fd);
}

static LoopTimer *cancelled;

static void on_due_cancel(LoopTimer *timer)
{
    loop_timer_cancel(cancelled);
}

TEST_WITH(a_timer_may_cancel_another, set_up, tear_down)
{
    LoopTimer first = {0}, second = {0}, end = {0};
    uint64_t now = clock_now();

    cancelled = &second;
    again_left = 1;
    loop_timer_set(loop, &second, now + 2, on_due_again);
    loop_timer_set(loop, &first, now + 1, on_due_cancel);
    loop_timer_set(loop, &end, now + 3, on_due_stop);
    assert_int_equal(loop_run(loop), 9);
    assert_int_equal(again_left, 1);
}

TEST_WITH(far_timers_wait, set_up, tear_down)
{
    LoopTimer far = {0}, near = {0};

    loop_timer_set(loop, &far, clock_now() + UINT64_MAX / 4, on_due_again);
    loop_timer_set(loop, &near, clock_now() + NSEC_PER_MSEC, on_due_stop);
    assert_int_equal(loop_run(loop), 9);
    assert_true(loop_timer_is_set(&far));
    loop_timer_cancel(&far);
}

/* Idle callbacks */

typedef struct Idle {
    LoopIdle idle;
    int calls, stop_after;
    bool again;
    struct Idle *other;
} Idle;

static void on_idle(LoopIdle *idle)
{
    Idle *i = container_of(idle, Idle, idle);

    assert_false(idle->armed);
    if (i->again)
        loop_idle_add(loop, idle, on_idle);
    if (i->other)
        loop_idle_remove(&i->other->idle);
    if (++i->calls == i->stop_after)
        loop_stop(loop, 5);
}

TEST_WITH(idle_runs_once_and_again_when_armed, set_up, tear_down)
{
    Idle once = {0}, always = {.again = true, .stop_after = 4};

    loop_idle_add(loop, &once.idle, on_idle);
    loop_idle_add(loop, &once.idle, on_idle);
    loop_idle_add(loop, &always.idle, on_idle);
    assert_int_equal(loop_run(loop), 5); /* would hang if the loop slept with one armed */
    assert_int_equal(once.calls, 1);
    assert_int_equal(always.calls, 4);
    loop_idle_remove(&always.idle);
    loop_idle_remove(&always.idle);
    loop_idle_remove(&once.idle);
}

/* Files get their turn between two rounds. */
TEST_WITH(idle_does_not_starve_files, set_up, tear_down)
{
    Idle always = {.again = true};
    File f = {.stop_after = 3};
    int fd = readable_fd();

    loop_idle_add(loop, &always.idle, on_idle);
    loop_file_add(loop, &f.file, fd, EPOLLIN, on_ready);
    assert_int_equal(loop_run(loop), 7);
    assert_in_range(always.calls, 3, 4);
    loop_file_remove(&f.file);
    loop_idle_remove(&always.idle);
    close(fd);
}

TEST_WITH(idle_may_remove_another, set_up, tear_down)
{
    Idle victim = {0}, end = {.stop_after = 1}, killer = {.other = &victim};

    loop_idle_add(loop, &killer.idle, on_idle);
    loop_idle_add(loop, &victim.idle, on_idle);
    loop_idle_add(loop, &end.idle, on_idle);
    assert_int_equal(loop_run(loop), 5);
    assert_int_equal(victim.calls, 0);
}

TEST_WITH(idle_stays_armed_across_a_stop, set_up, tear_down)
{
    Idle first = {.stop_after = 1}, second = {.stop_after = 1};

    loop_idle_add(loop, &first.idle, on_idle);
    loop_idle_add(loop, &second.idle, on_idle);
    assert_int_equal(loop_run(loop), 5);
    assert_int_equal(second.calls, 0);
    assert_true(second.idle.armed);
    assert_int_equal(loop_run(loop), 5);
    assert_int_equal(second.calls, 1);
}

/* Children */

typedef struct Child {
    LoopChild child;
    int status;
} Child;

static void on_exit_status(LoopChild *child, int status)
{
    container_of(child, Child, child)->status = status;
    assert_null(child->file.loop);
    loop_stop(loop, 6);
}

/* A child that another part of the process has reaped already has no status for us. */
TEST_WITH(a_process_that_is_not_ours_has_no_status, set_up, tear_down)
{
    Child c = {.status = 4711};
    int grandchild_pid[2], hold[2];
    pid_t child, grandchild;

    assert_int_equal(pipe(grandchild_pid), 0);
    assert_int_equal(pipe(hold), 0);
    child = fork();
    if (child == 0) {
        char byte;
        close(hold[1]);
        grandchild = fork();
        if (grandchild == 0) {
            (void)!read(hold[0], &byte, 1); /* until the test closes its end */
            _exit(0);
        }
        (void)!write(grandchild_pid[1], &grandchild, sizeof(grandchild));
        waitpid(grandchild, NULL, 0);
        _exit(0);
    }
    close(hold[0]);
    assert_int_equal(read(grandchild_pid[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
    assert_int_equal(loop_child_add(loop, &c.child, grandchild, on_exit_status), 0);
    close(hold[1]);
    assert_int_equal(loop_run(loop), 6);
    assert_int_equal(c.status, -1);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(loop_child_add(loop, &c.child, grandchild, on_exit_status), -ESRCH);
    close(grandchild_pid[0]);
    close(grandchild_pid[1]);
}
