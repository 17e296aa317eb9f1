#include "host/files/worker.h"

#include <errno.h>
#include <linux/ioprio.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>

struct Worker {
    LoopFile file;  /* of the eventfd that says `finished` is not empty */
    size_t pending; /* submitted and not yet done(); used by the loop thread only */
    unsigned max_threads;
    unsigned threads;
    int nice;

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t wake;
    List queue;
    List finished;
    unsigned idle;
    size_t queued;
    bool stopping;

    pthread_t ids[];
};

/* Any processor, but after everything else: the loop may be bound to one at a raised priority. Best effort:
 * without the right to, work is merely less polite. */
static void step_aside(int nice)
{
    pid_t tid = (pid_t)syscall(SYS_gettid);
    cpu_set_t all;

    memset(&all, 0xff, sizeof(all));
    sched_setaffinity(0, sizeof(all), &all);
    setpriority(PRIO_PROCESS, (id_t)tid, nice);
    syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, tid, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 6));
}

/* The next job, or NULL when the thread is to end. Called with the mutex held. */
static WorkerJob *next_job(Worker *worker)
{
    worker->idle++;
    while (list_empty(&worker->queue) && !worker->stopping)
        pthread_cond_wait(&worker->wake, &worker->mutex);
    worker->idle--;

    List *link = list_first(&worker->queue);
    if (!link)
        return NULL;
    list_remove(link);
    worker->queued--;
    return list_entry(link, WorkerJob, link);
}

static void *thread_main(void *userdata)
{
    Worker *worker = userdata;
    WorkerJob *job;

    step_aside(worker->nice);
    pthread_mutex_lock(&worker->mutex);
    while ((job = next_job(worker))) {
        pthread_mutex_unlock(&worker->mutex);
        job->run(job);
        pthread_mutex_lock(&worker->mutex);
        list_append(&worker->finished, &job->link);
        eventfd_write(worker->file.fd, 1);
    }
    pthread_mutex_unlock(&worker->mutex);
    return NULL;
}

/* Signals are the loop's: a worker thread takes none. */
static int start_thread(Worker *worker)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pthread_create(&worker->ids[worker->threads], NULL, thread_main, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r == 0)
        worker->threads++;
    return -r;
}

static WorkerJob *take_finished(Worker *worker)
{
    pthread_mutex_lock(&worker->mutex);
    List *link = list_first(&worker->finished);
    if (link)
        list_remove(link);
    pthread_mutex_unlock(&worker->mutex);
    return link ? list_entry(link, WorkerJob, link) : NULL;
}

static void on_finished(LoopFile *file, uint32_t events)
{
    Worker *worker = container_of(file, Worker, file);
    WorkerJob *job;
    eventfd_t count;

    eventfd_read(file->fd, &count);
    while ((job = take_finished(worker))) {
        worker->pending--;
        job->done(job);
    }
}

int worker_new(Worker **ret, Loop *loop, unsigned threads, int nice)
{
    _cleanup_(freep) Worker *worker = calloc(1, sizeof(Worker) + threads * sizeof(pthread_t));
    _cleanup_(closep) int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (!worker)
        return -ENOMEM;
    if (fd < 0)
        return -errno;
    worker->max_threads = threads;
    worker->nice = nice;
    list_init(&worker->queue);
    list_init(&worker->finished);
    int r = loop_file_add(loop, &worker->file, fd, EPOLLIN, on_finished);
    if (r < 0)
        return r;
    pthread_mutex_init(&worker->mutex, NULL);
    pthread_cond_init(&worker->wake, NULL);
    take_fd(&fd);
    *ret = take(worker);
    return 0;
}

int worker_submit(Worker *worker, WorkerJob *job, void (*run)(WorkerJob *), void (*done)(WorkerJob *))
{
    int r = 0;

    pthread_mutex_lock(&worker->mutex);
    if (worker->queued >= worker->idle && worker->threads < worker->max_threads)
        r = start_thread(worker);
    if (r < 0 && worker->threads == 0) {
        pthread_mutex_unlock(&worker->mutex);
        return r;
    }
    job->run = run;
    job->done = done;
    list_append(&worker->queue, &job->link);
    worker->queued++;
    worker->pending++;
    pthread_cond_signal(&worker->wake);
    pthread_mutex_unlock(&worker->mutex);
    return 0;
}

void worker_wait(Worker *worker)
{
    struct pollfd ready = {.fd = worker->file.fd, .events = POLLIN};

    while (worker->pending > 0)
        if (poll(&ready, 1, -1) == 1)
            on_finished(&worker->file, EPOLLIN);
}

Worker *worker_free(Worker *worker)
{
    if (!worker)
        return NULL;
    worker_wait(worker);

    pthread_mutex_lock(&worker->mutex);
    worker->stopping = true;
    pthread_cond_broadcast(&worker->wake);
    pthread_mutex_unlock(&worker->mutex);
    for (unsigned i = 0; i < worker->threads; i++)
        pthread_join(worker->ids[i], NULL);

    int fd = worker->file.fd;
    loop_file_remove(&worker->file);
    close(fd);
    pthread_cond_destroy(&worker->wake);
    pthread_mutex_destroy(&worker->mutex);
    free(worker);
    return NULL;
}
