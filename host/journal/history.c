#include "host/journal/history.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/journal/journal.h"

#define HISTORY_BYTES   (32u << 20)
#define HISTORY_RECORDS (24u << 20)
#define SUFFIX          ".history"

/* Hidden, so that whoever looks for journals passes it over. */
static void path_of(char *ret, size_t size, const Sandbox *sandbox)
{
    snprintf(ret, size, "%s/.%s" SUFFIX, sandbox->all->paths->journals, sandbox->files.id);
}

/* ---- its life ---- */

static void open_file(History *history, const Sandbox *sandbox, int flags)
{
    char path[PATH_MAX];

    *history = HISTORY_NULL;
    if (sandbox->ephemeral)
        return;
    path_of(path, sizeof(path), sandbox);
    history->fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
}

void history_begin(History *history, const Sandbox *sandbox)
{
    open_file(history, sandbox, O_TRUNC);
}

/* The size of all whole entries. */
static uint64_t whole_size(int fd)
{
    uint8_t head[RECORD_HEAD];
    uint64_t at = 0;
    struct stat st;

    if (fstat(fd, &st) < 0)
        return 0;
    while (pread(fd, head, RECORD_HEAD, (off_t)at) == RECORD_HEAD &&
           record_size(head) <= (uint64_t)st.st_size - at - RECORD_HEAD)
        at += RECORD_HEAD + record_size(head);
    return at;
}

void history_go_on(History *history, const Sandbox *sandbox)
{
    open_file(history, sandbox, 0);
    if (history->fd < 0)
        return;
    history->size = whole_size(history->fd);
    history->full = history->size >= HISTORY_BYTES;
    if (ftruncate(history->fd, (off_t)history->size) < 0)
        close_fd(&history->fd);
}

void history_end(History *history, const Sandbox *sandbox, bool leave)
{
    char path[PATH_MAX];

    if (history->fd < 0)
        return;
    close_fd(&history->fd);
    path_of(path, sizeof(path), sandbox);
    if (!leave)
        unlink(path);
}

static bool ends_so(const char *name, const char *suffix)
{
    size_t n = strlen(name), m = strlen(suffix);

    return n > m && strcmp(name + n - m, suffix) == 0;
}

void history_sweep(const Paths *paths)
{
    DIR *journals = opendir(paths->journals);
    const struct dirent *entry;

    while (journals && (entry = readdir(journals))) {
        const char *name = entry->d_name;
        char journal[NAME_MAX + sizeof(JOURNAL_SUFFIX)];
        struct stat st;

        if (name[0] != '.' || !ends_so(name, SUFFIX))
            continue;
        snprintf(journal, sizeof(journal), "%.*s" JOURNAL_SUFFIX, (int)(strlen(name) - 1 - strlen(SUFFIX)),
                 name + 1);
        if (fstatat(dirfd(journals), journal, &st, AT_SYMLINK_NOFOLLOW) < 0)
            unlinkat(dirfd(journals), name, 0);
    }
    if (journals)
        closedir(journals);
}

/* ---- writing ---- */

static void write_out(History *history, const MsgHistory *entry)
{
    Buf out _cleanup_(buf_deinit) = BUF_NULL;

    if (record_begin(&out) == 0 && body_encode(&out, MsgHistory, entry) == 0 && record_end(&out, 0) == 0)
        record_append(&history->fd, &history->size, &out);
}

static void end_full(History *history)
{
    MsgHistory entry;

    body_clear(&entry, MsgHistory);
    entry.branch = 0;
    entry.full = true;
    history->full = true;
    write_out(history, &entry);
}

static void append(History *history, const MsgHistory *entry, size_t size)
{
    if (history->fd < 0 || history->full)
        return;
    if (history->size + size > HISTORY_BYTES)
        end_full(history);
    else
        write_out(history, entry);
}

void history_call(History *history, const Call *call)
{
    const Buf program = {.data = (uint8_t *)call->code, .size = call->code_size};
    bool is_command = call->to_guest.lane == LANE_PROGRAM;
    bool has_room = history->size + call->record.size <= HISTORY_RECORDS;
    MsgHistory entry;

    body_clear(&entry, MsgHistory);
    entry.branch = call->to_guest.session->branch;
    if (call->code && is_command)
        entry.program = value_encoded(&program);
    else if (call->code)
        entry.code = (Text){call->code, call->code_size};
    if (has_room)
        entry.record = value_encoded(&call->record);
    append(history, &entry, call->code_size + (has_room ? call->record.size : 0));
}

void history_back(History *history, uint64_t branch, uint64_t count)
{
    MsgHistory entry;

    body_clear(&entry, MsgHistory);
    entry.branch = branch;
    entry.back_to = count;
    append(history, &entry, 0);
}

void history_committed(History *history, uint64_t branch, uint64_t from)
{
    MsgHistory entry;

    body_clear(&entry, MsgHistory);
    entry.branch = branch;
    entry.committed = from;
    append(history, &entry, 0);
}

/* ---- reading ---- */

static bool read_entry(int fd, uint64_t at, size_t size, Buf *ret)
{
    uint8_t *to = buf_reserve(ret, size);

    if (!to || pread(fd, to, size, (off_t)at) != (ssize_t)size)
        return false;
    buf_commit(ret, size);
    return true;
}

int history_read(const Sandbox *sandbox, uint64_t *at, size_t most, Buf *ret, uint32_t *ret_count)
{
    uint8_t head[RECORD_HEAD];
    char path[PATH_MAX];

    *ret_count = 0;
    path_of(path, sizeof(path), sandbox);
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    while (fd >= 0 && *ret_count < LIMIT_FILE_ENTRIES &&
           pread(fd, head, RECORD_HEAD, (off_t)*at) == RECORD_HEAD) {
        size_t size = record_size(head);

        if (size > HISTORY_BYTES || (*ret_count > 0 && ret->size + size > most) ||
            !read_entry(fd, *at + RECORD_HEAD, size, ret))
            break;
        if (wire_check(buf_head(ret) + ret->size - size, size) == -EBADMSG)
            return -EBADMSG;
        *at += RECORD_HEAD + size;
        ++*ret_count;
    }
    return 0;
}
