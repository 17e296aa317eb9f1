#include "host/session/limits.h"

typedef struct Total {
    uint64_t sessions, memory, disk;
} Total;

/* Those that end are on their way out: who has been told that one is closed may open the next. Those that are
 * saved have nothing but a disk. */
static Total total_of(const Sandboxes *all, uid_t user)
{
    const Sandbox *sandbox;
    Total total = {0};

    list_foreach (sandbox, &all->list, Sandbox, link) {
        if (!sandbox->trunk || sandbox->user != user || sandbox_is_ending(sandbox))
            continue;
        total.disk += sandbox->options.disk;
        if (sandbox->state == SANDBOX_PARKING || sandbox->state == SANDBOX_PARKED)
            continue;
        total.sessions++;
        total.memory += sandbox->options.memory;
    }
    return total;
}

static bool is_over(uint64_t total, uint64_t more, uint64_t limit)
{
    return limit > 0 && (total > limit || more > limit - total);
}

static int refuse_bytes(const char *option, const char *what, uint64_t total, uint64_t more, uint64_t limit,
                        Problem *problem)
{
    return problem_set(
        problem, ERR_LIMIT_REACHED,
        "your sessions have %llu MiB of %s and this one needs %llu MiB more, but the limit is %llu MiB "
        "(option %s of the controller); close a session, or open this one with less",
        (unsigned long long)(total >> 20), what, (unsigned long long)(more >> 20),
        (unsigned long long)(limit >> 20), option);
}

/* What a container needs, also that of a session which is woken. */
static int check_container(const Options *limits, const Total *total, const SessionOptions *options,
                           Problem *problem)
{
    if (is_over(total->sessions, 1, limits->user_sessions))
        return problem_set(
            problem, ERR_LIMIT_REACHED,
            "you have %llu open sessions, which is the limit (option user_sessions of the controller); "
            "close one of them first",
            (unsigned long long)total->sessions);
    if (is_over(total->memory, options->memory, limits->user_memory))
        return refuse_bytes("user_memory", "memory", total->memory, options->memory, limits->user_memory,
                            problem);
    return 0;
}

static int check_count(const Sessions *all, Problem *problem)
{
    size_t open = all->count - all->saved;

    if (open < all->options->max_sessions)
        return 0;
    return problem_set(problem, ERR_BUSY,
                       "%zu sessions are already open (option max_sessions); close one of them first", open);
}

static bool is_limited(const Sessions *all, uid_t user)
{
    return user != all->sandboxes->paths->user;
}

int limits_check_wake(const Sessions *all, uid_t user, const SessionOptions *options, Problem *problem)
{
    Total total = total_of(all->sandboxes, user);
    int r = check_count(all, problem);

    return r == 0 && is_limited(all, user) ? check_container(all->options, &total, options, problem) : r;
}

int limits_check(const Sessions *all, uid_t user, const SessionOptions *options, Problem *problem)
{
    const Options *limits = all->options;
    Total total = total_of(all->sandboxes, user);
    int r = limits_check_wake(all, user, options, problem);

    if (r < 0 || !is_limited(all, user))
        return r;
    if (is_over(total.disk, options->disk, limits->user_disk))
        return refuse_bytes("user_disk", "disk", total.disk, options->disk, limits->user_disk, problem);
    return 0;
}
