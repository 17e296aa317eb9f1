#include "host/session/limits.h"

typedef struct Total {
    uint64_t sessions, memory, disk;
} Total;

typedef struct Bound {
    uint64_t limit;   /* 0: none */
    const char *name; /* of its setting */
} Bound;

typedef struct Bounds {
    Bound sessions, memory, disk;
} Bounds;

/* The memory that a fork began with is a file outside its disk, at most as large as that. */
static uint64_t disk_of(uint64_t disk, bool forked)
{
    return forked ? 2 * disk : disk;
}

/* Adds up a user's sessions. Those that end do not count: a client that was told that one is closed may open
 * the next. Those that are saved have nothing but a disk. */
static Total total_of(const Sandboxes *all, uid_t user)
{
    const Sandbox *sandbox;
    Total total = {0};

    list_foreach (sandbox, &all->list, Sandbox, link) {
        if (!sandbox->root || sandbox->user != user || sandbox_is_ending(sandbox))
            continue;
        total.disk += disk_of(sandbox->options.disk, sandbox->forked);
        if (sandbox->state >= SANDBOX_SAVING)
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

static int refuse_bytes(Bound bound, const char *what, uint64_t total, uint64_t more, Problem *problem)
{
    return problem_set(
        problem, ERR_LIMIT_REACHED,
        "your sessions have %llu MiB of %s and this one needs %llu MiB more, but the limit is %llu MiB "
        "(%s of the controller); close a session, or open this one with less",
        (unsigned long long)(total >> 20), what, (unsigned long long)(more >> 20),
        (unsigned long long)(bound.limit >> 20), bound.name);
}

static Bound bound(uint64_t set, const char *key, bool limited, uint64_t option, const char *name)
{
    if (set > 0)
        return (Bound){set, key};
    return (Bound){limited ? option : 0, name};
}

/* Returns the bounds of a user: what is set for the user wins over the options, which do not bound the user
 * that the controller runs for. */
static Bounds bounds_of(const Sessions *all, uid_t user)
{
    const Options *options = all->options;
    bool limited = user != all->sandboxes->paths->user;
    UserBounds set = {0};

    all->events->bounds(all->userdata, user, &set);
    return (Bounds){
        .sessions = bound(set.sessions, "sessions in authorized_keys", limited, options->user_sessions,
                          "option user_sessions"),
        .memory = bound(set.memory, "memory in authorized_keys", limited, options->user_memory,
                        "option user_memory"),
        .disk = bound(0, NULL, limited, options->user_disk, "option user_disk"),
    };
}

static int check_count(const Sessions *all, Problem *problem)
{
    size_t open = all->count - all->saved;

    if (open < all->options->max_sessions)
        return 0;
    return problem_set(problem, ERR_BUSY,
                       "%zu sessions are already open (option max_sessions); close one of them first", open);
}

/* Checks for a container, that of a session which is woken included. */
static int check_container(const Bounds *bounds, const Total *total, const SessionOptions *options,
                           Problem *problem)
{
    if (is_over(total->sessions, 1, bounds->sessions.limit))
        return problem_set(problem, ERR_LIMIT_REACHED,
                           "you have %llu open sessions, which is the limit (%s of the controller); "
                           "close one of them first",
                           (unsigned long long)total->sessions, bounds->sessions.name);
    if (is_over(total->memory, options->memory, bounds->memory.limit))
        return refuse_bytes(bounds->memory, "memory", total->memory, options->memory, problem);
    return 0;
}

int limits_check_wake(const Sessions *all, uid_t user, const SessionOptions *options, Problem *problem)
{
    Bounds bounds = bounds_of(all, user);
    Total total = total_of(all->sandboxes, user);
    int r = check_count(all, problem);

    return r < 0 ? r : check_container(&bounds, &total, options, problem);
}

int limits_check(const Sessions *all, uid_t user, bool forked, const SessionOptions *options,
                 Problem *problem)
{
    Bounds bounds = bounds_of(all, user);
    Total total = total_of(all->sandboxes, user);
    uint64_t disk = disk_of(options->disk, forked);
    int r = limits_check_wake(all, user, options, problem);

    if (r == 0 && is_over(total.disk, disk, bounds.disk.limit))
        return refuse_bytes(bounds.disk, "disk", total.disk, disk, problem);
    return r;
}
