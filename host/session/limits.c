#include "host/session/limits.h"

typedef struct Total {
    uint64_t sessions, memory, disk;
} Total;

/* Those that end are on their way out: who has been told that one is closed may open the next. */
static Total total_of(const Sandboxes *all, uid_t user)
{
    const Sandbox *sandbox;
    Total total = {0};

    list_foreach (sandbox, &all->list, Sandbox, link) {
        if (!sandbox->trunk || sandbox->user != user || sandbox_is_ending(sandbox))
            continue;
        total.sessions++;
        total.memory += sandbox->options.memory;
        total.disk += sandbox->options.disk;
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
        "(%s of the controller); close a session, or open this one with less",
        (unsigned long long)(total >> 20), what, (unsigned long long)(more >> 20),
        (unsigned long long)(limit >> 20), option);
}

int limits_check(const Sessions *all, uid_t user, const SessionOptions *options, Problem *problem)
{
    const Options *limits = all->options;
    bool unbounded = user == all->sandboxes->paths->user;
    UserBounds bounds = {0};
    Total total;

    if (!all->events->bounds(all->userdata, user, &bounds) && unbounded)
        return 0;
    total = total_of(all->sandboxes, user);
    if (is_over(total.sessions, 1, bounds.sessions))
        return problem_set(
            problem, ERR_LIMIT_REACHED,
            "you have %llu open sessions, which is the limit (sessions in authorized_keys of the "
            "controller); close one of them first",
            (unsigned long long)total.sessions);
    if (is_over(total.memory, options->memory, bounds.memory))
        return refuse_bytes("memory in authorized_keys", "memory", total.memory, options->memory,
                            bounds.memory, problem);
    if (unbounded)
        return 0;
    if (bounds.sessions == 0 && is_over(total.sessions, 1, limits->user_sessions))
        return problem_set(
            problem, ERR_LIMIT_REACHED,
            "you have %llu open sessions, which is the limit (option user_sessions of the controller); "
            "close one of them first",
            (unsigned long long)total.sessions);
    if (bounds.memory == 0 && is_over(total.memory, options->memory, limits->user_memory))
        return refuse_bytes("option user_memory", "memory", total.memory, options->memory,
                            limits->user_memory, problem);
    if (is_over(total.disk, options->disk, limits->user_disk))
        return refuse_bytes("option user_disk", "disk", total.disk, options->disk, limits->user_disk,
                            problem);
    return 0;
}
