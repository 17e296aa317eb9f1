#include "host/journal_ended.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/epitaph.h"
#include "host/journal_entry.h"
#include "host/journal_sandbox.h"
#include "host/session.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

#define BYTES_MAX (256u << 20)

typedef struct EndedFile {
    List link;
    uint64_t expires; /* clock_now() nanoseconds */
    uint64_t size;
    char name[NAME_MAX + 1];
} EndedFile;

static void path_of(char *ret, size_t size, const Controller *controller, const char *name)
{
    snprintf(ret, size, "%s/ended/%s", controller->paths->state_dir, name);
}

static void forget(Controller *controller, EndedFile *file)
{
    char path[PATH_MAX];

    path_of(path, sizeof(path), controller, file->name);
    unlink(path);
    controller->ended.bytes -= file->size;
    list_remove(&file->link);
    free(file);
}

static void expire(Controller *controller);

static void on_due(LoopTimer *timer)
{
    expire(container_of(timer, Controller, ended.timer));
}

static void expire(Controller *controller)
{
    Ended *ended = &controller->ended;
    EndedFile *file;

    list_foreach (file, &ended->files, EndedFile, link) {
        if (file->expires > clock_now() && ended->bytes <= BYTES_MAX) {
            loop_timer_set(controller->loop, &ended->timer, file->expires, on_due);
            return;
        }
        forget(controller, file);
    }
}

/* The last to expire of all. */
static void add(Controller *controller, const char *name, uint64_t size, uint64_t expires)
{
    EndedFile *file = calloc(1, sizeof(*file));

    if (!file)
        return; /* the next controller removes it */
    snprintf(file->name, sizeof(file->name), "%s", name);
    file->size = size;
    file->expires = expires;
    list_append(&controller->ended.files, &file->link);
    controller->ended.bytes += size;
    expire(controller);
}

void ended_init(Controller *controller)
{
    list_init(&controller->ended.files);
}

void ended_deinit(Controller *controller)
{
    EndedFile *file;

    loop_timer_cancel(&controller->ended.timer);
    list_foreach (file, &controller->ended.files, EndedFile, link) {
        list_remove(&file->link);
        free(file);
    }
}

/* ---- keeping ---------------------------------------------------------------------------------------------
 */

/* NULL: it was asked to end. */
static const Epitaph *epitaph_of(const Session *session)
{
    const Epitaph *epitaph = epitaph_find(session->controller, (Text){session->name, strlen(session->name)});

    return epitaph && strcmp(epitaph->instance, session->instance) == 0 ? epitaph : NULL;
}

static int put_epitaph(Journal *journal, const Epitaph *epitaph)
{
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r = journal_batch(&batch);

    if (r == 0)
        r = journal_write_end(&batch,
                              &(JournalEnd){.name = {epitaph->name, strlen(epitaph->name)},
                                            .instance = {epitaph->instance, strlen(epitaph->instance)},
                                            .reason = {epitaph->reason, strlen(epitaph->reason)},
                                            .time = epitaph->time});
    return r < 0 ? r : journal_put(journal, &batch);
}

static int put_stored(Journal *journal, void *userdata)
{
    const Session *session = userdata;
    const Epitaph *epitaph = epitaph_of(session);
    Call *call;
    int r = epitaph ? put_epitaph(journal, epitaph) : 0;

    if (r < 0)
        return r;

    list_foreach (call, &session->stored, Call, in_session) {
        Buf batch _cleanup_(buf_deinit) = BUF_NULL;

        r = journal_batch(&batch);
        if (r == 0)
            r = journal_add_call(&batch, call);
        if (r == 0)
            r = journal_put(journal, &batch);
        if (r < 0)
            break;
    }
    return r;
}

void ended_keep(const Session *session)
{
    Controller *controller = session->controller;
    Journal journal = JOURNAL_NULL;
    char path[PATH_MAX];

    if (list_empty(&session->stored) && !epitaph_of(session))
        return;
    path_of(path, sizeof(path), controller, "");
    mkdir(path, 0700);
    path_of(path, sizeof(path), controller, session->instance);
    if (journal_open(&journal, path, put_stored, (void *)session) < 0)
        return;
    if (journal.fd >= 0)
        add(controller, session->instance, journal.size, clock_now() + STORED_RUN_SECONDS * NSEC_PER_SEC);
    journal_leave(&journal);
}

/* ---- loading ---------------------------------------------------------------------------------------------
 */

typedef struct Found {
    char name[NAME_MAX + 1];
    uint64_t size;
    double ended; /* Unix seconds */
} Found;

static int by_end(const void *a, const void *b)
{
    double first = ((const Found *)a)->ended, second = ((const Found *)b)->ended;

    return (first > second) - (first < second);
}

/* What is there, in the order it ended. */
static size_t list_files(const Controller *controller, Found **ret)
{
    char path[PATH_MAX];
    struct dirent *entry;
    Found *found = NULL, *more;
    size_t n = 0;
    DIR *directory;

    path_of(path, sizeof(path), controller, "");
    directory = opendir(path);
    while (directory && (entry = readdir(directory))) {
        struct stat st;

        if (entry->d_name[0] == '.' ||
            fstatat(dirfd(directory), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !(more = realloc(found, (n + 1) * sizeof(*found))))
            continue;
        found = more;
        found[n] = (Found){.size = (uint64_t)st.st_size, .ended = (double)st.st_mtime};
        snprintf(found[n++].name, sizeof(found->name), "%s", entry->d_name);
    }
    if (directory)
        closedir(directory);
    if (n > 0)
        qsort(found, n, sizeof(*found), by_end);
    *ret = found;
    return n;
}

typedef struct Loading {
    Controller *controller;
    uint64_t expires;
} Loading;

static void load_epitaph(Controller *controller, const JournalEnd *end)
{
    Epitaph epitaph = {.time = end->time};

    snprintf(epitaph.name, sizeof(epitaph.name), "%.*s", (int)end->name.size, end->name.data);
    snprintf(epitaph.instance, sizeof(epitaph.instance), "%.*s", (int)end->instance.size, end->instance.data);
    snprintf(epitaph.reason, sizeof(epitaph.reason), "%.*s", (int)end->reason.size, end->reason.data);
    epitaph_add(controller, &epitaph);
}

static int on_entry(void *userdata, const void *bytes, size_t size)
{
    Loading *loading = userdata;
    Problem problem = PROBLEM_NULL;
    char run_id[LIMIT_RUN_ID + 1];
    JournalEntry entry;

    if (journal_entry_decode(&entry, bytes, size, &problem) < 0)
        return -EBADMSG;
    if (entry.kind == ENTRY_CALL) {
        snprintf(run_id, sizeof(run_id), "%.*s", (int)entry.call.run_id.size, entry.call.run_id.data);
        if (!call_find(loading->controller, run_id))
            call_restore(loading->controller, run_id, entry.call.code_hash, entry.call.record,
                         loading->expires);
    }
    if (entry.kind == ENTRY_ENDED)
        load_epitaph(loading->controller, &entry.end);
    journal_entry_deinit(&entry);
    return 0;
}

/* A name ending so is of a file that was not completed. */
static bool is_complete(const char *name)
{
    return !strchr(name, '.');
}

static void load(Controller *controller, const Found *found)
{
    double left = found->ended + STORED_RUN_SECONDS - clock_unix();
    Loading loading = {controller, 0};
    uint64_t size;
    char path[PATH_MAX];

    path_of(path, sizeof(path), controller, found->name);
    if (left <= 0 || left > STORED_RUN_SECONDS || !is_complete(found->name)) {
        unlink(path);
        return;
    }
    loading.expires = clock_now() + clock_from_seconds(left);
    journal_read(path, on_entry, &loading, &size);
    add(controller, found->name, found->size, loading.expires);
}

void ended_load(Controller *controller)
{
    Found *found _cleanup_(freep) = NULL;
    size_t n = list_files(controller, &found);

    for (size_t i = 0; i < n; i++)
        load(controller, &found[i]);
    calls_expire(controller);
}
