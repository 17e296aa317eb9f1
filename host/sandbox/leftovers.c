/* Leftovers: what ended sessions and earlier controllers have left goes. */
#include "host/sandbox/leftovers.h"

#include <dirent.h>
#include <string.h>

#include "host/files/tree.h"
#include "host/sandbox/sandbox.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* ---- of ended sessions ---- */

/* Time between reviews, and from the end of a session to the next at the earliest. */
#define REVIEW_NSEC (600 * NSEC_PER_SEC)
#define SOON_NSEC   NSEC_PER_SEC
/* Looking is to take no more than that share of the time. */
#define SHARE 20

struct RetentionTimer {
    const Sandboxes *all;
    LoopTimer timer;
    bool looking;
    bool again;            /* a session has ended meanwhile */
    uint64_t began, pause; /* nanoseconds */
    double asked;          /* Unix seconds */
};

static void set_timer(RetentionTimer *kept, uint64_t after);

/* NULL where it was used since it was looked at. */
static Sandbox *find_saved(const RetentionTimer *kept, Text id)
{
    Sandbox *sandbox;

    list_foreach (sandbox, &kept->all->list, Sandbox, link)
        if (sandbox->state == SANDBOX_PARKED && sandbox->parked <= kept->asked &&
            text_equal(id, sandbox->files.id))
            return sandbox;
    return NULL;
}

static void end_saved(Sandbox *sandbox)
{
    log_info("saved session ends", "session=%s reason=keep_for or keep_size", sandbox->name);
    sandbox_close(sandbox, "it was saved, and went beyond keep_for or keep_size of the controller");
}

/* Has it removed: the session then wakes with its pickled variables. */
static void forget_memory(const Sandbox *sandbox, const JobMemory *memory)
{
    log_info("memory of a saved session goes", "session=%s reason=keep_size", sandbox->name);
    file_service_ask(sandbox->all->file_service, NOBODYS, JOB_FORGET_MEMORY, memory, NULL, NULL);
}

static void on_beyond(const RetentionTimer *kept, const JobReviewed *reviewed)
{
    Sandbox *sandbox;
    JobMemory memory;

    for (uint32_t i = 0; i < value_count(&reviewed->saved); i++)
        if ((sandbox = find_saved(kept, value_text(&reviewed->saved, i))))
            end_saved(sandbox);
    for (uint32_t i = 0; i < value_count(&reviewed->memories); i++) {
        value_row(&memory, JobMemory, &reviewed->memories, i);
        if ((sandbox = find_saved(kept, memory.id)))
            forget_memory(sandbox, &memory);
    }
}

static void write_saved(Writer *w, const void *source)
{
    const Sandboxes *all = source;
    const Sandbox *sandbox;
    uint32_t n = 0;

    list_foreach (sandbox, &all->list, const Sandbox, link)
        n += sandbox->state == SANDBOX_PARKED && sandbox->files.id;
    write_array(w, n);
    list_foreach (sandbox, &all->list, const Sandbox, link)
        if (sandbox->state == SANDBOX_PARKED && sandbox->files.id)
            body_write(w, JobSleeper,
                       (&(JobSleeper){.id = text_of(sandbox->files.id), .since = sandbox->parked}));
}

static void on_reviewed(void *userdata, FileServiceAnswer *answer)
{
    RetentionTimer *kept = userdata;
    uint64_t took = clock_now() - kept->began;

    kept->looking = false;
    kept->pause = MAX(SHARE * took, SOON_NSEC);
    if (answer->body && answer->body->as_REVIEW.sessions > 0)
        log_info("removed files of ended sessions", "sessions=%llu bytes=%llu",
                 (unsigned long long)answer->body->as_REVIEW.sessions,
                 (unsigned long long)answer->body->as_REVIEW.bytes);
    if (answer->body)
        on_beyond(kept, &answer->body->as_REVIEW);
    set_timer(kept, kept->again ? kept->pause : REVIEW_NSEC);
    kept->again = false;
}

static void on_due(LoopTimer *timer)
{
    RetentionTimer *kept = container_of(timer, RetentionTimer, timer);

    const Options *options = kept->all->options;
    const JobReview review = {.keep_for = options->keep_for,
                              .keep_size = options->keep_size,
                              .saved = {.write = write_saved, .source = kept->all}};

    kept->began = clock_now();
    kept->asked = clock_unix();
    kept->looking =
        file_service_ask(kept->all->file_service, NOBODYS, JOB_REVIEW, &review, on_reviewed, kept) == 0;
    if (!kept->looking)
        set_timer(kept, REVIEW_NSEC);
}

static void set_timer(RetentionTimer *kept, uint64_t after)
{
    loop_timer_set(kept->all->loop, &kept->timer, clock_now() + after, on_due);
}

RetentionTimer *retention_timer_begin(const Sandboxes *all)
{
    RetentionTimer *kept = calloc(1, sizeof(*kept));

    if (!kept) {
        log_error("out of memory", "consequence=%s", "files of ended sessions are not removed");
        return NULL;
    }
    kept->all = all;
    kept->pause = SOON_NSEC;
    set_timer(kept, SOON_NSEC);
    return kept;
}

void retention_timer_wake(RetentionTimer *kept)
{
    if (!kept)
        return;
    if (kept->looking)
        kept->again = true;
    else if (!loop_timer_is_set(&kept->timer) || kept->timer.due > clock_now() + kept->pause)
        set_timer(kept, kept->pause);
}

RetentionTimer *retention_timer_end(RetentionTimer *kept)
{
    if (kept)
        loop_timer_cancel(&kept->timer);
    free(kept);
    return NULL;
}

/* ---- of an earlier controller ---- */

static bool has_link(const Sandboxes *all, const char *name)
{
    const Sandbox *sandbox;

    list_foreach (sandbox, &all->list, Sandbox, link)
        if (sandbox->guest && strcmp(guest_name(sandbox->guest), name) == 0)
            return true;
    return false;
}

void sweep_links(const Sandboxes *all)
{
    DIR *directory = opendir(all->paths->links);
    struct dirent *entry;

    while (directory && (entry = readdir(directory)))
        if (entry->d_name[0] != '.' && !has_link(all, entry->d_name))
            remove_tree(dirfd(directory), entry->d_name, NULL);
    if (directory)
        closedir(directory);
    rmdir(all->paths->links);
}

static void on_swept(void *userdata, unsigned removed)
{
    Sandboxes *all = userdata;

    file_service_tell(all->file_service, JOB_SWEEP, &(JobNothing){0});
    if (removed > 0)
        log_info("removed containers of an earlier controller", "count=%u", removed);
}

void sweep_sandboxes(Sandboxes *all)
{
    all->engine->ops->sweep(all->engine, on_swept, all);
}
