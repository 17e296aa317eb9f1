#include "guest/interpreter/checkpoint/threads.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>

#include "guest/interpreter/checkpoint/no_malloc.h"
#include "proto/base/clock.h"
#include "proto/base/proc.h"

/* The C library's own, by which it changes the user of all threads (SIGSETXID): it lets nobody block it. The
 * other such signal, 32, ends the threads of timers. */
#define SIGNAL 33

#define THREADS_MAX 4096u

/* Main looks again after this for threads that have ended instead. */
#define LOOK (2 * NSEC_PER_MSEC)

/* On the stack of the handler, which may be as small as 8 KiB. */
#define BIRTH_STACK 1536u

/* Bytes of the C library's record of a thread in which its number is looked for. */
#define RECORD_SIZE 1536u

/* As the kernel has it: sigaction() refuses the signal. */
typedef struct KernelAction {
    void (*handler)(int number, siginfo_t *info, void *context);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
} KernelAction;

typedef enum SlotState {
    SLOT_GONE, /* the thread has ended, or need not rest any more */
    SLOT_ASKED,
    SLOT_TAKEN, /* by the thread, on its way to rest */
    SLOT_RESTS,
} SlotState;

/* A thread, and what of it the kernel keeps and a copy of memory has not. */
typedef struct Slot {
    _Atomic SlotState state;
    pid_t number;
    unsigned round;
    pthread_t thread;
    void *pointer; /* to its local storage */
    void *locks;   /* locks that the kernel lets go of when the thread ends */
    size_t locks_size;
    char name[16];
    int nice;
    unsigned long processors[1024 / (8 * sizeof(long))];
    char *stack;
    ucontext_t here;
} Slot;

/* A thread made again in this process. */
typedef struct Made {
    pthread_t thread;
    pid_t believed; /* its number, says the C library */
    pid_t number;
} Made;

static struct {
    KernelAction action; /* to be installed */
    KernelAction before; /* the C library's, for what others send */
    size_t number_at;    /* in its record of a thread */
    unsigned rounds;
    _Atomic unsigned gate;    /* the round that is on; 0: nobody is to rest */
    _Atomic unsigned resting; /* of this round */
    _Atomic unsigned expected;
    size_t n, next, made_n;
    Slot slots[THREADS_MAX]; /* memory only as far as it is used */
    Made made[THREADS_MAX];
} threads;

static long futex(_Atomic unsigned *word, int what, unsigned value, const struct timespec *limit)
{
    return syscall(SYS_futex, word, what | FUTEX_PRIVATE_FLAG, value, limit, NULL, 0);
}

/* ---- the thread that rests ---- */

/* Takes the slot of this thread, if it is to rest: a signal may come late. */
static Slot *take_slot(const siginfo_t *info)
{
    uintptr_t from = (uintptr_t)threads.slots, at = (uintptr_t)info->si_value.sival_ptr;
    Slot *slot = info->si_value.sival_ptr;
    SlotState asked = SLOT_ASKED;

    if (at < from || at >= from + sizeof(threads.slots) || (at - from) % sizeof(Slot) != 0 ||
        slot->number != gettid())
        return NULL;
    return atomic_compare_exchange_strong(&slot->state, &asked, SLOT_TAKEN) ? slot : NULL;
}

static void describe(Slot *slot)
{
    slot->thread = pthread_self();
    slot->pointer = __builtin_thread_pointer();
    syscall(SYS_get_robust_list, 0, &slot->locks, &slot->locks_size);
    prctl(PR_GET_NAME, slot->name);
    slot->nice = getpriority(PRIO_PROCESS, 0);
    memset(slot->processors, 0, sizeof(slot->processors));
    syscall(SYS_sched_getaffinity, 0, sizeof(slot->processors), slot->processors);
}

/* Until the gate opens, also in a thread made again. */
static void rest(Slot *slot)
{
    unsigned round = slot->round;

    slot->state = SLOT_RESTS;
    if (++threads.resting >= threads.expected)
        futex(&threads.resting, FUTEX_WAKE, 1, NULL);
    while (threads.gate == round)
        futex(&threads.gate, FUTEX_WAIT, round, NULL);
}

static void pass_on(int number, siginfo_t *info, void *context)
{
    if (threads.before.flags & SA_SIGINFO && threads.before.handler)
        threads.before.handler(number, info, context);
}

/* With all signals blocked. */
__attribute__((no_sanitize("address"))) static void on_signal(int number, siginfo_t *info, void *context)
{
    _Alignas(16) char stack[BIRTH_STACK];
    int saved = errno;
    bool ours = info->si_code == SI_QUEUE && info->si_pid == getpid();
    Slot *slot = ours ? take_slot(info) : NULL;

    if (slot) {
        describe(slot);
        slot->stack = stack + sizeof(stack);
        getcontext(&slot->here); /* a thread made again comes back here */
        rest(slot);
    } else if (!ours) {
        pass_on(number, info, context);
    }
    errno = saved;
}

/* The first of a thread made again, on the stack of its handler, below what that uses. Only direct calls: to
 * bind a function takes more of the stack, and sanitizers have opinions of their own. The alternative stack
 * for signals needs no word here: the end of the handler sets it. */
__attribute__((no_sanitize("address"))) static int begin_again(void *argument)
{
    Slot *slot = argument;

    syscall(SYS_set_robust_list, slot->locks, slot->locks_size);
    restartable_register();
    syscall(SYS_prctl, PR_SET_NAME, slot->name);
    syscall(SYS_setpriority, PRIO_PROCESS, 0, slot->nice);
    syscall(SYS_sched_setaffinity, 0, sizeof(slot->processors), slot->processors);
    setcontext(&slot->here);
    return 0;
}

/* ---- the thread that copies ---- */

static void set_action(int number, const KernelAction *action, KernelAction *ret_old)
{
    syscall(SYS_rt_sigaction, number, action, ret_old, sizeof(action->mask));
}

/* The C library knows how a handler returns; so does the action that it makes of ours for another signal. */
static void make_action(void)
{
    struct sigaction ours = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK},
                     old;

    sigaction(SIGRTMAX, &ours, &old);
    set_action(SIGRTMAX, NULL, &threads.action);
    sigaction(SIGRTMAX, &old, NULL);
    threads.action.mask = ~0ul;
}

/* Installs the handler, which stays: signals that come late would end the process. The C library has its own
 * set before the second thread. */
static void install(void)
{
    KernelAction now;

    set_action(SIGNAL, NULL, &now);
    if (now.handler == on_signal)
        return;
    threads.before = now;
    set_action(SIGNAL, &threads.action, NULL);
}

__attribute__((no_sanitize("address"))) void threads_init(void)
{
    const char *record = (const char *)pthread_self(); /* NOLINT */
    pid_t number = gettid();

    make_action();
    for (size_t at = 0; at < RECORD_SIZE; at += sizeof(number)) {
        if (memcmp(record + at, &number, sizeof(number)) == 0) {
            threads.number_at = at;
            return;
        }
    }
}

static int count(void *others, int number)
{
    *(size_t *)others += number != getpid();
    return 0;
}

bool threads_are_none(void)
{
    size_t others = 0;

    return numbers_each("/proc/self/task", count, &others) == 0 && others == 0;
}

static int ask(Slot *slot)
{
    siginfo_t info = {.si_signo = SIGNAL, .si_code = SI_QUEUE};

    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_ptr = slot;
    return syscall(SYS_rt_tgsigqueueinfo, getpid(), slot->number, SIGNAL, &info) < 0 ? -errno : 0;
}

/* They are listed in the same order each time. */
static bool is_known(pid_t number)
{
    for (size_t i = 0; i < threads.n; i++) {
        size_t at = (threads.next + i) % threads.n;

        if (threads.slots[at].number != number)
            continue;
        threads.next = at + 1;
        return true;
    }
    return false;
}

/* Asks a thread that was not there the last time. */
static int ask_new(void *unused, int number)
{
    if (number == getpid() || is_known(number))
        return 0;
    if (threads.n == THREADS_MAX)
        return -E2BIG;

    Slot *slot = &threads.slots[threads.n];
    slot->number = number;
    slot->round = threads.rounds;
    slot->state = SLOT_ASKED;
    threads.expected++;
    int r = ask(slot);
    if (r < 0) {
        slot->state = SLOT_GONE;
        threads.expected--;
    } else {
        threads.n++;
    }
    return r == -ESRCH ? 0 : r;
}

/* Looks for ends of threads that were asked. */
static void look_for_ends(void)
{
    for (size_t i = 0; i < threads.n; i++) {
        Slot *slot = &threads.slots[i];

        if (slot->state == SLOT_ASKED && tgkill(getpid(), slot->number, 0) < 0 && errno == ESRCH) {
            slot->state = SLOT_GONE;
            threads.expected--;
        }
    }
}

static bool wait_for_all(uint64_t end)
{
    struct timespec look = clock_timespec(LOOK);
    unsigned resting;

    while ((resting = threads.resting) < threads.expected) {
        if (futex(&threads.resting, FUTEX_WAIT, resting, &look) == 0 || errno != ETIMEDOUT)
            continue;
        look_for_ends();
        if (clock_now() >= end)
            return threads.resting >= threads.expected;
    }
    return true;
}

/* A thread that was just being made, by one that rests by now, is there at the next look. */
static int rest_all(uint64_t end)
{
    size_t before;

    do {
        before = threads.n;
        int r = numbers_each("/proc/self/task", ask_new, NULL);
        if (r < 0)
            return r;
        if (!wait_for_all(end))
            return -EBUSY;
    } while (threads.n > before);
    return 0;
}

/* Excuses the threads that have not begun to rest. Returns one of them, or NULL. */
static const Slot *excuse(void)
{
    const Slot *restless = NULL;

    for (size_t i = 0; i < threads.n; i++) {
        SlotState asked = SLOT_ASKED;

        if (!atomic_compare_exchange_strong(&threads.slots[i].state, &asked, SLOT_GONE))
            continue;
        threads.expected--;
        restless = &threads.slots[i];
    }
    wait_for_all(UINT64_MAX); /* threads that have begun use their slots */
    return restless;
}

static void explain(int error, const Slot *restless, char *why, size_t size)
{
    char path[64], name[32] = "";

    if (!restless) {
        snprintf(why, size, "the threads cannot be stopped: %s", strerror(-error));
        return;
    }
    snprintf(path, sizeof(path), "task/%d/comm", (int)restless->number);
    proc_read(0, path, name, sizeof(name));
    name[strcspn(name, "\n")] = '\0';
    for (char *c = name; *c; c++)
        *c = *c >= ' ' && *c <= '~' ? *c : '?';
    snprintf(why, size, "thread %d (%s) could not be stopped in time", (int)restless->number, name);
}

int threads_rest(uint64_t limit, char *why, size_t size)
{
    if (threads.number_at == 0)
        return -ENOSYS;
    install();
    threads.n = threads.next = 0;
    threads.resting = threads.expected = 0;
    threads.gate = ++threads.rounds;
    int r = rest_all(clock_now() + limit);
    if (r < 0) {
        const Slot *restless = excuse();

        threads_go_on();
        explain(r, r == -EBUSY ? restless : NULL, why, size);
    }
    return r;
}

/* The C library's, of a thread. */
static pid_t *believed_number(pthread_t thread)
{
    return (pid_t *)((char *)thread + threads.number_at); /* NOLINT */
}

static int make(Slot *slot)
{
    const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                      CLONE_SETTLS | CLONE_CHILD_CLEARTID;
    pid_t *believed = believed_number(slot->thread);
    pid_t number = clone(begin_again, slot->stack, flags, slot, NULL, slot->pointer, believed);

    if (number < 0)
        return -errno;
    threads.made[threads.made_n++] = (Made){slot->thread, *believed, number};
    return 0;
}

/* Leaves those that rest and are wanted. */
static unsigned select_threads(bool (*wanted)(pthread_t thread))
{
    unsigned n = 0;

    for (size_t i = 0; i < threads.n; i++) {
        Slot *slot = &threads.slots[i];

        if (slot->state == SLOT_RESTS && wanted && !wanted(slot->thread))
            slot->state = SLOT_GONE;
        n += slot->state == SLOT_RESTS;
    }
    return n;
}

int threads_make(bool (*wanted)(pthread_t thread))
{
    int r = 0;

    threads.made_n = 0;
    threads.resting = 0;
    threads.expected = select_threads(wanted);
    for (size_t i = 0; i < threads.n && r == 0; i++) {
        if (threads.slots[i].state != SLOT_GONE)
            r = make(&threads.slots[i]);
    }
    if (r == 0)
        wait_for_all(UINT64_MAX);
    return r;
}

void threads_go_on(void)
{
    threads.gate = 0;
    futex(&threads.gate, FUTEX_WAKE, INT_MAX, NULL);
}

pid_t threads_number(pthread_t thread)
{
    for (size_t i = 0; i < threads.made_n; i++) {
        const Made *made = &threads.made[i];

        if (pthread_equal(made->thread, thread))
            return *believed_number(thread) == made->believed ? made->number : 0;
    }
    return 0;
}

/* Makes the C library believe in a number: the one it believed in. */
static pid_t believe(pthread_t thread, pid_t number)
{
    pid_t *believed = believed_number(thread), before = *believed;

    *believed = number;
    return before;
}

void restartable_register(void)
{
#if defined(SYS_rseq) && defined(RSEQ_SIG)
    if (__rseq_size > 0)
        syscall(SYS_rseq, (char *)__builtin_thread_pointer() + __rseq_offset, MAX(__rseq_size, 32u), 0,
                RSEQ_SIG);
#endif
}

/* Functions of the C library that name a thread to the kernel. The library believes in the number that a
 * thread had before it was made again (threads.h), and these are found before its own. */

#pragma GCC visibility push(default)

/* As the kernel encodes it: time of a thread, spent on a processor. */
#define CLOCK_OF(number) ((clockid_t)(~(unsigned)(number) << 3 | 6u))

#define REAL(name)                                                                                           \
    __typeof__(name) *real;                                                                                  \
    *(void **)&real = dlsym(RTLD_NEXT, #name)

/* Turns errno into what these functions return: they leave errno alone. */
static int result(int r, int saved)
{
    int error = r < 0 ? errno : 0;

    errno = saved;
    return error;
}

int pthread_kill(pthread_t thread, int number)
{
    pid_t made = threads_number(thread);
    int saved = errno;

    if (made)
        return result(tgkill(getpid(), made, number), saved);
    REAL(pthread_kill);
    return real(thread, number);
}

int pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t *ret)
{
    pid_t made = threads_number(thread);
    int saved = errno;

    if (made)
        return result(sched_getaffinity(made, size, ret), saved);
    REAL(pthread_getaffinity_np);
    return real(thread, size, ret);
}

int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set)
{
    pid_t made = threads_number(thread);
    int saved = errno;

    if (made)
        return result(sched_setaffinity(made, size, set), saved);
    REAL(pthread_setaffinity_np);
    return real(thread, size, set);
}

int pthread_getcpuclockid(pthread_t thread, clockid_t *ret)
{
    pid_t made = threads_number(thread);

    if (made) {
        *ret = CLOCK_OF(made);
        return 0;
    }
    REAL(pthread_getcpuclockid);
    return real(thread, ret);
}

/* Answers a thread that asks about itself, as it is in general. Another one may use its locks meanwhile. */
int pthread_getattr_np(pthread_t thread, pthread_attr_t *ret)
{
    pid_t made = pthread_equal(thread, pthread_self()) ? threads_number(thread) : 0;
    REAL(pthread_getattr_np);

    if (made == 0)
        return real(thread, ret);

    pid_t before = believe(thread, made);
    int r = real(thread, ret);
    believe(thread, before);
    return r;
}
