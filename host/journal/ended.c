#include "host/journal/ended.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/journal/journal.h"
#include "host/journal/session_journal.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

#define BYTES_MAX (256u << 20)

typedef struct EndedFile {
    List link;
    uint64_t expires; /* clock_now() nanoseconds */
    uint64_t size;
    char name[NAME_MAX + 1];
} EndedFile;

static void path_of(char *ret, size_t size, const Ended *ended, const char *name)
{
    snprintf(ret, size, "%s/%s", ended->paths->ended, name);
}

static void forget(Ended *ended, EndedFile *file)
{
    char path[PATH_MAX];

    path_of(path, sizeof(path), ended, file->name);
    unlink(path);
    ended->bytes -= file->size;
    list_remove(&file->link);
    free(file);
}

static void expire(Ended *ended);

static void on_due(LoopTimer *timer)
{
    expire(container_of(timer, Ended, timer));
}

static void expire(Ended *ended)
{
    EndedFile *file;

    list_foreach (file, &ended->files, EndedFile, link) {
        if (file->expires > clock_now() && ended->bytes <= BYTES_MAX) {
            loop_timer_set(ended->loop, &ended->timer, file->expires, on_due);
            return;
        }
        forget(ended, file);
    }
}

/* The last to expire of all. */
static void add(Ended *ended, const char *name, uint64_t size, uint64_t expires)
{
    EndedFile *file = calloc(1, sizeof(*file));

    if (!file)
        return; /* the next controller removes it */
    snprintf(file->name, sizeof(file->name), "%s", name);
    file->size = size;
    file->expires = expires;
    list_append(&ended->files, &file->link);
    ended->bytes += size;
    expire(ended);
}

void ended_init(Ended *ended)
{
    list_init(&ended->files);
}

void ended_deinit(Ended *ended)
{
    EndedFile *file;

    loop_timer_cancel(&ended->timer);
    list_foreach (file, &ended->files, EndedFile, link) {
        list_remove(&file->link);
        free(file);
    }
}

/* ---- keeping ---- */

static int put_end_record(Journal *journal, const EndRecord *end_record)
{
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r = journal_write_end(&batch, &(JournalEnd){.name = text_of(end_record->name),
                                                    .user = end_record->user,
                                                    .instance = text_of(end_record->instance),
                                                    .reason = text_of(end_record->reason),
                                                    .time = end_record->time});

    return r < 0 ? r : journal_put(journal, &batch);
}

static int put_stored(Journal *journal, void *userdata)
{
    const Session *session = userdata;
    const EndRecord *end_record = session_end_record(session);
    Call *call;
    int r = end_record ? put_end_record(journal, end_record) : 0;

    if (r < 0)
        return r;
    list_foreach (call, &session->stored, Call, in_session) {
        Buf batch _cleanup_(buf_deinit) = BUF_NULL;

        r = session_journal_add_call(&batch, call);
        if (r == 0)
            r = journal_put(journal, &batch);
        if (r < 0)
            break;
    }
    return r;
}

void ended_keep(Ended *ended, const Session *session)
{
    Journal journal = JOURNAL_NULL;
    char path[PATH_MAX];

    if (list_empty(&session->stored) && !session_end_record(session))
        return;
    path_of(path, sizeof(path), ended, "");
    mkdir(path, 0700);
    path_of(path, sizeof(path), ended, session->instance);
    if (journal_open(&journal, path, put_stored, (void *)session) < 0)
        return;
    if (journal.fd >= 0)
        add(ended, session->instance, journal.size, clock_now() + STORED_RUN_SECONDS * NSEC_PER_SEC);
    journal_leave(&journal);
}

/* ---- loading ---- */

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

/* Lists the files that are there, in the order in which their sessions ended. */
static size_t list_files(const Ended *ended, Found **ret)
{
    char path[PATH_MAX];
    struct dirent *entry;
    Found *found = NULL, *more;
    size_t n = 0;
    DIR *directory;

    path_of(path, sizeof(path), ended, "");
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
    Ended *ended;
    uint64_t expires;
} Loading;

static void load_end_record(const Ended *ended, const JournalEnd *end)
{
    EndRecord end_record = {.user = journal_user(end->user, ended->paths->user), .time = end->time};

    snprintf(end_record.name, sizeof(end_record.name), "%.*s", (int)end->name.size, end->name.data);
    snprintf(end_record.instance, sizeof(end_record.instance), "%.*s", (int)end->instance.size,
             end->instance.data);
    snprintf(end_record.reason, sizeof(end_record.reason), "%.*s", (int)end->reason.size, end->reason.data);
    end_record_add(ended->end_records, &end_record);
}

static void load_call(const Loading *loading, const JournalCall *said)
{
    const Ended *ended = loading->ended;
    uid_t user = journal_user(said->user, ended->paths->user);
    char run_id[LIMIT_RUN_ID + 1];

    snprintf(run_id, sizeof(run_id), "%.*s", (int)said->run_id.size, said->run_id.data);
    if (!call_find(ended->calls, user, run_id))
        call_restore(ended->calls, user, run_id, said->code_hash, said->record, loading->expires);
}

static int on_entry(void *userdata, const void *bytes, size_t size)
{
    Loading *loading = userdata;
    Problem problem = PROBLEM_NULL;
    JournalEntry entry;

    if (journal_entry_decode(&entry, bytes, size, &problem) < 0)
        return -EBADMSG;
    if (entry.kind == ENTRY_CALL)
        load_call(loading, &entry.call);
    if (entry.kind == ENTRY_ENDED)
        load_end_record(loading->ended, &entry.end);
    journal_entry_deinit(&entry);
    return 0;
}

/* A name ending so is of a file that was not completed. */
static bool is_complete(const char *name)
{
    return !strchr(name, '.');
}

static void load(Ended *ended, const Found *found)
{
    double left = found->ended + STORED_RUN_SECONDS - clock_unix();
    Loading loading = {ended, 0};
    uint64_t size;
    char path[PATH_MAX];

    path_of(path, sizeof(path), ended, found->name);
    if (left <= 0 || left > STORED_RUN_SECONDS || !is_complete(found->name)) {
        unlink(path);
        return;
    }
    loading.expires = clock_now() + clock_from_seconds(left);
    journal_read(path, on_entry, &loading, &size);
    add(ended, found->name, found->size, loading.expires);
}

void ended_load(Ended *ended)
{
    Found *found _cleanup_(freep) = NULL;
    size_t n = list_files(ended, &found);

    for (size_t i = 0; i < n; i++)
        load(ended, &found[i]);
    calls_expire(ended->calls);
}
