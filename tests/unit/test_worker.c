#include <pthread.h>
#include <signal.h>

#include "host/files/worker.h"
#include "tests/support/cmocka.h"

#define JOBS 2000

typedef struct Job {
    WorkerJob job;
    Worker *worker;
    unsigned again; /* times to submit it once more */
    unsigned runs, dones;
    bool on_loop_thread; /* run() was */
} Job;

static Loop *loop;
static Worker *worker;
static pthread_t loop_thread;
static unsigned left; /* until the loop is stopped */

static int set_up(void **state)
{
    loop_thread = pthread_self();
    return loop_new(&loop) < 0 || worker_new(&worker, loop, 3, 5) < 0;
}

static int tear_down(void **state)
{
    worker_free(worker);
    loop_free(loop);
    return 0;
}

static void job_run(WorkerJob *j)
{
    Job *job = container_of(j, Job, job);

    job->runs++;
    job->on_loop_thread |= pthread_equal(pthread_self(), loop_thread) != 0;
}

static void job_done(WorkerJob *j)
{
    Job *job = container_of(j, Job, job);

    job->dones++;
    assert_true(pthread_equal(pthread_self(), loop_thread));
    if (job->again > 0) {
        job->again--;
        assert_int_equal(worker_submit(job->worker, j, job_run, job_done), 0);
    } else if (left > 0 && --left == 0) {
        loop_stop(loop, 7);
    }
}

static void assert_ran(const Job *job, unsigned times)
{
    assert_int_equal(job->runs, times);
    assert_int_equal(job->dones, times);
    assert_false(job->on_loop_thread);
}

static void test_jobs_through_the_loop(void **state)
{
    Job *jobs = calloc(JOBS, sizeof(Job));

    left = JOBS;
    for (unsigned i = 0; i < JOBS; i++) {
        jobs[i] = (Job){.worker = worker, .again = i % 3};
        assert_int_equal(worker_submit(worker, &jobs[i].job, job_run, job_done), 0);
    }
    assert_int_equal(loop_run(loop), 7);
    for (unsigned i = 0; i < JOBS; i++)
        assert_ran(&jobs[i], 1 + i % 3);
    free(jobs);
}

static void test_wait_and_free(void **state)
{
    Job jobs[20];

    for (unsigned i = 0; i < ARRAY_SIZE(jobs); i++) {
        jobs[i] = (Job){.worker = worker, .again = 2};
        assert_int_equal(worker_submit(worker, &jobs[i].job, job_run, job_done), 0);
    }
    worker_wait(worker);
    for (unsigned i = 0; i < ARRAY_SIZE(jobs); i++)
        assert_ran(&jobs[i], 3);

    for (unsigned i = 0; i < ARRAY_SIZE(jobs); i++)
        assert_int_equal(worker_submit(worker, &jobs[i].job, job_run, job_done), 0);
    worker = worker_free(worker);
    for (unsigned i = 0; i < ARRAY_SIZE(jobs); i++)
        assert_ran(&jobs[i], 4);
}

typedef struct Meeting {
    WorkerJob job;
    pthread_barrier_t *barrier;
} Meeting;

static void meeting_run(WorkerJob *job)
{
    pthread_barrier_wait(container_of(job, Meeting, job)->barrier);
}

static void meeting_done(WorkerJob *job)
{
}

/* Three jobs that each wait for the other two need three threads at once. */
static void test_side_by_side(void **state)
{
    pthread_barrier_t barrier;
    Meeting meetings[3];

    pthread_barrier_init(&barrier, NULL, 3);
    for (unsigned i = 0; i < 3; i++) {
        meetings[i] = (Meeting){.barrier = &barrier};
        assert_int_equal(worker_submit(worker, &meetings[i].job, meeting_run, meeting_done), 0);
    }
    worker_wait(worker);
    pthread_barrier_destroy(&barrier);
}

static sigset_t seen_mask;

static void mask_run(WorkerJob *job)
{
    pthread_sigmask(SIG_BLOCK, NULL, &seen_mask);
}

static void test_signals_are_not_taken(void **state)
{
    WorkerJob job;
    sigset_t before;

    assert_int_equal(worker_submit(worker, &job, mask_run, meeting_done), 0);
    worker_wait(worker);
    assert_int_equal(sigismember(&seen_mask, SIGTERM), 1);
    assert_int_equal(sigismember(&seen_mask, SIGCHLD), 1);
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    assert_int_equal(sigismember(&before, SIGTERM), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_jobs_through_the_loop),
        TEST(test_wait_and_free),
        TEST(test_side_by_side),
        TEST(test_signals_are_not_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
