/* Threads of a library, for test_checkpoint_threads.py. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A pool that computes squares: work is given to threads that wait, and waited for. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static long work[64], results[64];
static int is_open[64];

static void *serve(void *number)
{
    long me = (long)number;

    pthread_mutex_lock(&lock);
    for (;;) {
        while (!is_open[me])
            pthread_cond_wait(&given, &lock);
        results[me] = work[me] * work[me];
        is_open[me] = 0;
        pthread_cond_broadcast(&done);
    }
    return NULL;
}

static void start(void *(*function)(void *), void *argument)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, function, argument) != 0)
        abort();
    pthread_detach(thread);
}

void pool_start(int n)
{
    for (long i = 0; i < n; i++)
        start(serve, (void *)i);
}

long pool_sum(int n)
{
    long sum = 0;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < n; i++) {
        work[i] = i;
        is_open[i] = 1;
    }
    pthread_cond_broadcast(&given);
    for (int i = 0; i < n; i++) {
        while (is_open[i])
            pthread_cond_wait(&done, &lock);
        sum += results[i];
    }
    pthread_mutex_unlock(&lock);
    return sum;
}

/* Threads that never pause. Each counts what it does, and what was not right. */
volatile long turns, mistakes;

static void *allocate(void *unused)
{
    void *blocks[64] = {0};

    for (unsigned long i = 0;; i++, turns++) {
        free(blocks[i % 64]);
        blocks[i % 64] = malloc(1100 + i * 61 % 5000);
    }
    return unused;
}

static pthread_mutex_t recursive;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;

static void *lock_twice(void *unused)
{
    for (;; turns++) {
        mistakes += pthread_mutex_lock(&recursive) != 0;
        mistakes += pthread_mutex_lock(&recursive) != 0;
        mistakes += pthread_mutex_unlock(&recursive) != 0;
        mistakes += pthread_mutex_unlock(&recursive) != 0;
    }
    return unused;
}

static void *write_and_read(void *unused)
{
    for (;; turns++) {
        mistakes += pthread_rwlock_wrlock(&shared) != 0;
        mistakes += pthread_rwlock_unlock(&shared) != 0;
        mistakes += pthread_rwlock_rdlock(&shared) != 0;
        mistakes += pthread_rwlock_unlock(&shared) != 0;
    }
    return unused;
}

static void *nothing(void *unused)
{
    return unused;
}

/* Of threads that come and go some are always just beginning or ending. */
static void *bear(void *unused)
{
    for (;; turns++) {
        pthread_t thread;

        if (pthread_create(&thread, NULL, nothing, NULL) == 0)
            mistakes += pthread_join(thread, NULL) != 0;
    }
    return unused;
}

/* As the Rust library has it: a stack for signals of eight kilobytes. */
static void *spin_on_small_stack(void *unused)
{
    stack_t stack = {.ss_sp = malloc(8192), .ss_size = 8192}, now;
    volatile double x = 1.5;

    sigaltstack(&stack, NULL);
    for (;; turns++) {
        for (int i = 0; i < 1000; i++)
            x = x * 1.0000001 + 1e-9;
        sigaltstack(NULL, &now);
        mistakes += now.ss_sp != stack.ss_sp || now.ss_size != stack.ss_size || x < 1;
    }
    return unused;
}

/* Calls that a signal ends, and calls that begin again. */
static int ends[2];

static void *wait_in_kernel(void *unused)
{
    for (;; turns++) {
        struct pollfd nobody = {.fd = ends[0], .events = POLLIN};
        char byte;

        mistakes += poll(&nobody, 1, 1) < 0 && errno != EINTR;
        mistakes += write(ends[1], "x", 1) != 1;
        mistakes += read(ends[0], &byte, 1) != 1;
    }
    return unused;
}

/* Sends what stops threads for a copy, and means nothing by it. */
static void *flood(void *unused)
{
    siginfo_t info = {.si_code = SI_QUEUE};

    for (;; turns++) {
        info.si_pid = getpid();
        info.si_value.sival_ptr = (void *)turns;
        syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), 33, &info);
        syscall(SYS_rt_tgsigqueueinfo, getpid(), getpid(), 33, &info);
        usleep(100);
    }
    return unused;
}

static const struct {
    const char *name;
    void *(*function)(void *unused);
} kinds[] = {
    {"allocate", allocate}, {"lock_twice", lock_twice},           {"write_and_read", write_and_read},
    {"bear", bear},         {"small_stack", spin_on_small_stack}, {"wait_in_kernel", wait_in_kernel},
    {"flood", flood},
};

int busy_start(const char *name, int n)
{
    pthread_mutexattr_t attributes;

    mallopt(M_ARENA_MAX, 1); /* locks are fought for */
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &attributes);
    if (pipe(ends) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            while (n-- > 0)
                start(kinds[i].function, NULL);
            return 0;
        }
    }
    return -1;
}

/* A thread that keeps every signal away, as only a direct call can. */
static volatile int is_deaf, hear;

static void *be_deaf(void *unused)
{
    unsigned long all = ~0ul, before;

    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
    for (is_deaf = 1; !hear;)
        usleep(1000);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(all));
    is_deaf = 0;
    for (;;)
        pause();
    return unused;
}

void deaf_start(void)
{
    prctl(PR_SET_NAME, "deaf one");
    start(be_deaf, NULL);
    prctl(PR_SET_NAME, "limpet-interpre");
    while (!is_deaf)
        usleep(1000);
}

void deaf_end(void)
{
    hear = 1;
    while (is_deaf)
        usleep(1000);
}

/* A thread that tells what the kernel knows of it. */
static pthread_t marked;
static volatile int asked;
static long told[7];

static void *tell(void *unused)
{
    cpu_set_t first;

    CPU_ZERO(&first);
    CPU_SET(0, &first);
    sched_setaffinity(0, sizeof(first), &first);
    setpriority(PRIO_PROCESS, 0, 7);
    prctl(PR_SET_NAME, "marked");
    for (;;) {
        char name[16];
        unsigned processor;
        void *head;
        size_t size;
        cpu_set_t now;
        pthread_attr_t attributes;
        clockid_t clock;
        struct timespec time;

        while (!asked)
            usleep(1000);
        prctl(PR_GET_NAME, name);
        sched_getaffinity(0, sizeof(now), &now);
        syscall(SYS_getcpu, &processor, NULL, NULL);
        syscall(SYS_get_robust_list, 0, &head, &size);
        told[0] = strcmp(name, "marked") == 0;
        told[1] = getpriority(PRIO_PROCESS, 0);
        told[2] = CPU_EQUAL(&now, &first) && processor == 0 && sched_getcpu() == 0;
        told[3] = head != NULL;
        told[4] = pthread_getattr_np(pthread_self(), &attributes);
        told[5] = pthread_getaffinity_np(pthread_self(), sizeof(now), &now);
        told[6] = pthread_getcpuclockid(pthread_self(), &clock) || clock_gettime(clock, &time);
        asked = 0;
        if (told[1] < 0)
            return unused;
    }
}

void marked_start(void)
{
    if (pthread_create(&marked, NULL, tell, NULL) != 0)
        abort();
}

long marked_ask(int which)
{
    for (asked = 1; asked;)
        usleep(1000);
    return told[which];
}

/* A thread that counts the bytes it reads; what is written to the descriptor returned. */
static void *hear_bytes(void *from)
{
    char byte;

    for (; read((int)(long)from, &byte, 1) == 1;)
        turns++;
    return NULL;
}

int listener_start(void)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
        abort();
    start(hear_bytes, (void *)(long)pair[0]);
    return pair[1];
}

/* A thread that ends when it is told, and is waited for. */
static pthread_t joined;
static volatile int stop;

static void *until_stopped(void *value)
{
    while (!stop)
        usleep(1000);
    return value;
}

void joined_start(void)
{
    if (pthread_create(&joined, NULL, until_stopped, (void *)42) != 0)
        abort();
}

long joined_end(void)
{
    void *value;

    stop = 1;
    return pthread_join(joined, &value) == 0 ? (long)value : -1;
}
