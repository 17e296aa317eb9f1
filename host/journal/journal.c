#include "host/journal/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "proto/base/fdio.h"
#include "proto/base/log.h"

#define SCHEMA_FILE "host/journal/journal.def"
#include "proto/schema/as_tables.h"

#define HEADER      "limpet\0\1" /* the last byte is the version */
#define HEADER_SIZE 8u

/* Below this it is not worth to be written anew. */
#define REWRITE_MINIMUM (4u << 20)

/* Factor by which a journal may be larger than what is live in it: of calls with large records one in a
 * hundred or less then waits for a rewrite. */
#define REWRITE_FACTOR 4u

/* ---- records ---- */

int record_begin(Buf *buf)
{
    static const uint8_t nothing[RECORD_HEAD];

    return buf_append(buf, nothing, RECORD_HEAD);
}

int record_end(Buf *buf, size_t begin)
{
    size_t size = buf->size - begin - RECORD_HEAD;

    if (size > UINT32_MAX) {
        buf->size = begin;
        return -ENOBUFS;
    }
    for (unsigned i = 0; i < RECORD_HEAD; i++)
        buf_head(buf)[begin + i] = (uint8_t)(size >> (8 * (RECORD_HEAD - 1 - i)));
    return 0;
}

size_t record_size(const uint8_t *head)
{
    return (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
}

int record_append(int *fd, uint64_t *size, const Buf *records)
{
    int r = write_all(*fd, buf_head(records), records->size);

    if (r == 0)
        *size += records->size;
    else if (ftruncate(*fd, (off_t)*size) < 0)
        close_fd(fd);
    return r;
}

/* ---- writing ---- */

int journal_put(Journal *journal, Buf *batch)
{
    int r;

    if (batch->size <= RECORD_HEAD) /* no entries */
        return 0;
    r = record_end(batch, 0);
    return r < 0 ? r : record_append(&journal->fd, &journal->size, batch);
}

/* Said once, until nothing is missing any more. */
static void give_up(Journal *journal, int error)
{
    if (!journal->lost)
        log_warn("journal not written", "path=%s reason=%s consequence=%s", journal->path, strerror(-error),
                 "the next controller will not know of it");
    journal->lost = journal->retry = true;
}

static int write_new(Journal *journal, const char *path)
{
    int r;

    journal->fd =
        open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
    if (journal->fd < 0)
        return -errno;
    journal->size = HEADER_SIZE;
    r = write_all(journal->fd, HEADER, HEADER_SIZE);
    if (r == 0)
        r = journal->snapshot(journal, journal->userdata);
    if (r == 0 && rename(path, journal->path) < 0)
        r = -errno;
    if (r < 0)
        unlink(path);
    return r;
}

/* The new file takes the place of the old one when it is complete; otherwise that goes on. */
static int rewrite(Journal *journal, bool outgrown)
{
    Journal before = *journal;
    char path[PATH_MAX];
    int r = -ENAMETOOLONG;

    journal->stale = outgrown || journal->lost || journal->fd < 0;
    if ((size_t)snprintf(path, sizeof(path), "%s.new", journal->path) < sizeof(path))
        r = write_new(journal, path);
    if (r < 0) {
        close_fd(&journal->fd);
        *journal = before;
        journal->rewrite_size = journal->size + REWRITE_MINIMUM;
        return r;
    }
    close_fd(&before.fd);
    if (before.lost)
        log_info("journal rewritten", "path=%s", journal->path);
    journal->lost = journal->retry = false;
    journal->rewrite_size = MAX((uint64_t)REWRITE_MINIMUM, REWRITE_FACTOR * journal->size);
    return 0;
}

void journal_refresh(Journal *journal)
{
    int r = journal->path ? rewrite(journal, false) : 0;

    if (r < 0)
        give_up(journal, r);
}

int journal_open(Journal *journal, const char *path, JournalSnapshot snapshot, void *userdata)
{
    *journal = (Journal){.path = strdup(path), .fd = -1, .snapshot = snapshot, .userdata = userdata};
    if (!journal->path)
        return -ENOMEM;
    journal_refresh(journal);
    return 0;
}

int journal_resume(Journal *journal, const char *path, uint64_t size, JournalSnapshot snapshot,
                   void *userdata)
{
    *journal = (Journal){.path = strdup(path), .fd = -1, .snapshot = snapshot, .userdata = userdata};
    if (!journal->path)
        return -ENOMEM;
    journal->size = size;
    journal->rewrite_size = MAX((uint64_t)REWRITE_MINIMUM, REWRITE_FACTOR * size);
    journal->fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    if (journal->fd >= 0 && ftruncate(journal->fd, (off_t)size) == 0)
        return 0;
    close_fd(&journal->fd);
    journal_refresh(journal);
    return 0;
}

/* There is room again: once for this batch, perhaps for all. When not, what is missing waits until the file
 * is written anew for its size. */
static void catch_up(Journal *journal)
{
    journal->retry = false;
    rewrite(journal, false);
}

void journal_append(Journal *journal, Buf *batch)
{
    int r = 0;

    if (!journal->path)
        return;
    if (journal->fd < 0 || journal->size + batch->size > journal->rewrite_size) {
        r = rewrite(journal, true);
        if (r == 0)
            return;
    }
    if (journal->fd >= 0) {
        r = journal_put(journal, batch);
        if (journal->fd < 0)
            unlink(journal->path);
    }
    if (r < 0)
        give_up(journal, r);
    else if (journal->retry)
        catch_up(journal);
}

void journal_leave(Journal *journal)
{
    close_fd(&journal->fd);
    free(journal->path);
    *journal = JOURNAL_NULL;
}

void journal_remove(Journal *journal)
{
    if (journal->path)
        unlink(journal->path);
    journal_leave(journal);
}

/* ---- reading ---- */

typedef int (*OnEntry)(void *userdata, const void *bytes, size_t size);

/* Hands out the entries of one batch. Returns the size of those that made sense. */
static size_t parse_batch(const uint8_t *bytes, size_t size, OnEntry entry, void *userdata)
{
    size_t at = 0;

    while (size - at > RECORD_HEAD) {
        size_t n = record_size(bytes + at);

        if (n > size - at - RECORD_HEAD || entry(userdata, bytes + at + RECORD_HEAD, n) < 0)
            break;
        at += RECORD_HEAD + n;
    }
    return at;
}

size_t journal_parse(const void *bytes, size_t size, OnEntry entry, void *userdata)
{
    const uint8_t *from = bytes;
    size_t at = HEADER_SIZE;

    if (size < HEADER_SIZE || memcmp(from, HEADER, HEADER_SIZE) != 0)
        return 0;
    while (size - at > RECORD_HEAD) {
        size_t n = record_size(from + at), used;

        if (n == 0 || n > size - at - RECORD_HEAD)
            break;
        used = parse_batch(from + at + RECORD_HEAD, n, entry, userdata);
        if (used < n)
            break;
        at += RECORD_HEAD + n;
    }
    return at;
}

int journal_read(const char *path, OnEntry entry, void *userdata, uint64_t *ret_size)
{
    int fd _cleanup_(closep) = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    size_t used = 0;
    void *bytes;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (st.st_size > 0) {
        bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED)
            return -errno;
        used = journal_parse(bytes, (size_t)st.st_size, entry, userdata);
        munmap(bytes, (size_t)st.st_size);
    }
    *ret_size = used;
    return 0;
}

/* ---- entries ---- */

static const char *const names[ENTRY_KINDS] = {
    [ENTRY_SESSION] = "session",   [ENTRY_READY] = "ready",
    [ENTRY_BRANCH] = "branch",     [ENTRY_BRANCH_CLOSED] = "branch_closed",
    [ENTRY_CALL] = "call",         [ENTRY_FILES] = "files",
    [ENTRY_CLOSING] = "closing",   [ENTRY_ENDED] = "ended",
    [ENTRY_PACKAGES] = "packages", [ENTRY_SAVED] = "saved",
};

/* Behind its size, and the first of a batch behind that of the batch: of a `schema`, or as it is encoded. */
static int append(Buf *batch, const Schema *schema, const void *body, size_t size)
{
    size_t before = batch->size, begin;
    int r = before == 0 ? record_begin(batch) : 0;

    begin = batch->size;
    if (r == 0)
        r = record_begin(batch);
    if (r == 0)
        r = schema ? schema_append(batch, schema, body) : buf_append(batch, body, size);
    if (r == 0)
        r = record_end(batch, begin);
    if (r < 0)
        batch->size = before;
    return r;
}

/* *from with the name of its kind. */
#define APPEND(batch, kind, type, from)                                                                      \
    __extension__({                                                                                          \
        type entry_ = *(from);                                                                               \
        entry_.entry = text_of(names[kind]);                                                                 \
        append(batch, SCHEMA(type), &entry_, 0);                                                             \
    })

int journal_write_session(Buf *batch, const JournalSession *session)
{
    return APPEND(batch, ENTRY_SESSION, JournalSession, session);
}

int journal_write_branch(Buf *batch, const JournalBranch *branch)
{
    return APPEND(batch, ENTRY_BRANCH, JournalBranch, branch);
}

int journal_write_branch_closed(Buf *batch, uint64_t branch)
{
    return APPEND(batch, ENTRY_BRANCH_CLOSED, JournalBranchClosed, &(JournalBranchClosed){.branch = branch});
}

int journal_write_end(Buf *batch, const JournalEnd *end)
{
    return APPEND(batch, ENTRY_ENDED, JournalEnd, end);
}

int journal_write_call(Buf *batch, const JournalCall *call)
{
    return APPEND(batch, ENTRY_CALL, JournalCall, call);
}

int journal_write_files(Buf *batch, const Buf *files)
{
    return APPEND(batch, ENTRY_FILES, JournalFiles, &(JournalFiles){.files = value_encoded(files)});
}

int journal_write_packages(Buf *batch, const char *packages)
{
    return APPEND(batch, ENTRY_PACKAGES, JournalPackages, &(JournalPackages){.packages = text_of(packages)});
}

int journal_write_saved(Buf *batch, const JournalSaved *saved)
{
    return APPEND(batch, ENTRY_SAVED, JournalSaved, saved);
}

int journal_write_plain(Buf *batch, EntryKind kind)
{
    return APPEND(batch, kind, JournalPlain, &(JournalPlain){0});
}

int journal_write_copy(Buf *batch, const void *bytes, size_t size)
{
    return append(batch, NULL, bytes, size);
}

/* ---- reading entries ---- */

/* Returns whether the text can be one component of a path, or part of one. */
static bool is_name(Text text)
{
    return text.size > 0 && text.data[0] != '.' && !memchr(text.data, '/', text.size) &&
           !memchr(text.data, '\0', text.size);
}

static int bad(Problem *problem, const char *what)
{
    return problem_set(problem, ERR_BAD_REQUEST, "a journal entry with an invalid value: %s", what);
}

/* Returns whether the link is sound, or absent with its secret: a saved session has none. */
static bool is_link(const JournalSession *session)
{
    if (!session->link.data)
        return !session->secret.data;
    return is_name(session->link) && session->secret.size == GUEST_SECRET_SIZE;
}

static int decode_session(JournalEntry *ret, const msgpack_object_map *body, Problem *problem)
{
    const JournalSession *session = &ret->session;

    if (body_decode(&ret->session, JournalSession, body, problem) < 0)
        return -EPROTO;
    if (!is_name(session->name) || !is_name(session->directory) || !is_name(session->container) ||
        !is_name(session->instance) || !is_name(session->engine) || !is_link(session))
        return bad(problem, "a name or a secret");
    return 0;
}

static int decode_branch(JournalEntry *ret, const msgpack_object_map *body, Problem *problem)
{
    const JournalBranch *branch = &ret->branch;

    if (body_decode(&ret->branch, JournalBranch, body, problem) < 0)
        return -EPROTO;
    if (branch->branch == 0 || branch->name.size == 0 || !is_name(branch->instance) ||
        memchr(branch->name.data, '\0', branch->name.size))
        return bad(problem, "a branch");
    return 0;
}

static int decode_branch_closed(JournalEntry *ret, const msgpack_object_map *body, Problem *problem)
{
    JournalBranchClosed closed;
    int r = body_decode(&closed, JournalBranchClosed, body, problem);

    if (r == 0)
        ret->branch = (JournalBranch){.branch = closed.branch};
    return r;
}

static int decode_call(JournalEntry *ret, const msgpack_object_map *body, Problem *problem)
{
    const JournalCall *call = &ret->call;

    if (body_decode(&ret->call, JournalCall, body, problem) < 0)
        return -EPROTO;
    if (!is_name(call->run_id) || call->run_id.size != LIMIT_RUN_ID || call->record.size == 0)
        return bad(problem, "a call");
    return 0;
}

static int decode_files(JournalEntry *ret, const msgpack_object_map *body, Problem *problem)
{
    JournalFiles said;
    int r = body_decode(&said, JournalFiles, body, problem);

    if (r == 0)
        ret->files = said.files.array;
    return r;
}

static int decode_packages(JournalEntry *ret, const msgpack_object_map *body, Problem *problem)
{
    JournalPackages said;

    if (body_decode(&said, JournalPackages, body, problem) < 0)
        return -EPROTO;
    if (!is_name(said.packages))
        return bad(problem, "packages");
    ret->packages = said.packages;
    return 0;
}

static int decode_saved(JournalEntry *ret, const msgpack_object_map *body, Problem *problem)
{
    return body_decode(&ret->saved, JournalSaved, body, problem);
}

static int decode_end(JournalEntry *ret, const msgpack_object_map *body, Problem *problem)
{
    return body_decode(&ret->end, JournalEnd, body, problem);
}

static int decode_plain(JournalEntry *ret, const msgpack_object_map *body, Problem *problem)
{
    JournalPlain plain;

    return body_decode(&plain, JournalPlain, body, problem);
}

static int decode_body(JournalEntry *ret, const msgpack_object_map *body, Problem *problem)
{
    static int (*const decoders[ENTRY_KINDS])(JournalEntry *, const msgpack_object_map *, Problem *) = {
        [ENTRY_SESSION] = decode_session,   [ENTRY_READY] = decode_plain,
        [ENTRY_BRANCH] = decode_branch,     [ENTRY_BRANCH_CLOSED] = decode_branch_closed,
        [ENTRY_CALL] = decode_call,         [ENTRY_FILES] = decode_files,
        [ENTRY_CLOSING] = decode_plain,     [ENTRY_ENDED] = decode_end,
        [ENTRY_PACKAGES] = decode_packages, [ENTRY_SAVED] = decode_saved,
    };
    const msgpack_object *name = map_find(body, "entry");

    if (!name || name->type != MSGPACK_OBJECT_STR)
        return bad(problem, "a kind");
    for (EntryKind kind = 0; kind < ENTRY_KINDS; kind++)
        if (text_equal((Text){name->via.str.ptr, name->via.str.size}, names[kind])) {
            ret->kind = kind;
            return decoders[kind](ret, body, problem);
        }
    return bad(problem, "a kind");
}

int journal_entry_decode(JournalEntry *ret, const void *bytes, size_t size, Problem *problem)
{
    JournalEntry entry = {0};
    int r;

    if (wire_check(bytes, size) < 0)
        return bad(problem, "bytes");
    msgpack_unpacked_init(&entry.unpacked);
    if (msgpack_unpack_next(&entry.unpacked, bytes, size, NULL) != MSGPACK_UNPACK_SUCCESS ||
        entry.unpacked.data.type != MSGPACK_OBJECT_MAP)
        r = bad(problem, "a form");
    else
        r = decode_body(&entry, &entry.unpacked.data.via.map, problem);
    if (r < 0) {
        msgpack_unpacked_destroy(&entry.unpacked);
        return -EPROTO;
    }
    *ret = entry;
    return 0;
}

void journal_entry_deinit(JournalEntry *entry)
{
    msgpack_unpacked_destroy(&entry->unpacked);
}
