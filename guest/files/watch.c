/* watch, events, unwatch. Events are kept until they are asked for; when there are too many the watch ends,
 * and whoever asks is told to look again. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/inotify.h>

#include "guest/files/files.h"
#include "proto/base/clock.h"

#define MASK                                                                                                 \
    (IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF |          \
     IN_MOVE_SELF | IN_ONLYDIR)

/* Bytes of the events that wait for a watch. */
#define WAITING_BYTES (1u << 20)

/* A directory that a watch looks at. */
typedef struct Node {
    int wd;
    char *path; /* absolute; NULL: this place is free */
    struct FileWatch *watch;
} Node;

typedef struct FileWatch {
    uint64_t number; /* 0: this place is free */
    Watching *all;
    bool recursive;
    bool lost;  /* events were */
    Buf events; /* waiting events, each encoded */
    uint32_t count;
    uint32_t last;  /* bytes of the last of them */
    uint64_t asked; /* id of the question that waits for some; 0: none */
    LoopTimer due;
    uint64_t used; /* clock_now() when it was last asked */
} FileWatch;

struct Watching {
    Files *files;
    int fd; /* inotify: one for all, for there are few to be had */
    LoopFile file;
    FileWatch watches[LIMIT_WATCHES];
    Node nodes[LIMIT_WATCHED];
    size_t nodes_used; /* places at the front that are or were in use */
};

/* ---- directories ---- */

static Node *free_node(Watching *watching)
{
    for (size_t i = 0; i < watching->nodes_used; i++)
        if (!watching->nodes[i].path)
            return &watching->nodes[i];
    return watching->nodes_used < LIMIT_WATCHED ? &watching->nodes[watching->nodes_used++] : NULL;
}

static bool is_used(const Watching *watching, int wd)
{
    for (size_t i = 0; i < watching->nodes_used; i++)
        if (watching->nodes[i].path && watching->nodes[i].wd == wd)
            return true;
    return false;
}

static void node_end(Watching *watching, Node *node)
{
    free(take(node->path));
    if (!is_used(watching, node->wd))
        inotify_rm_watch(watching->fd, node->wd);
}

static int add_node(FileWatch *watch, const char *path, const char *shown)
{
    Watching *watching = watch->all;
    Node *node = free_node(watching);
    int wd;

    if (!node)
        return -ENOSPC;
    wd = inotify_add_watch(watching->fd, path, MASK);
    if (wd < 0)
        return -errno;
    for (size_t i = 0; i < watching->nodes_used; i++)
        if (watching->nodes[i].path && watching->nodes[i].wd == wd && watching->nodes[i].watch == watch)
            return -EEXIST; /* watched by another path */
    node->path = strdup(shown);
    if (!node->path)
        return -ENOMEM;
    node->wd = wd;
    node->watch = watch;
    return 0;
}

/* ---- events ---- */

static bool same_as_last(const FileWatch *watch, const Buf *event)
{
    return watch->count > 0 && watch->last == event->size &&
           memcmp(buf_head(&watch->events) + watch->events.size - watch->last, buf_head(event),
                  event->size) == 0;
}

static void note(FileWatch *watch, const char *kind, const char *path)
{
    const MsgFileEvent said = {.kind = text_of(kind), .path = text_of(path)};
    Buf event _cleanup_(buf_deinit) = BUF_NULL;

    if (watch->lost)
        return;
    if (watch->count >= LIMIT_FILE_EVENTS || watch->events.size > WAITING_BYTES ||
        body_encode(&event, MsgFileEvent, &said) < 0) {
        watch->lost = true;
        return;
    }
    if (same_as_last(watch, &event))
        return;
    watch->lost = buf_append(&watch->events, buf_head(&event), event.size) < 0;
    watch->last = (uint32_t)event.size;
    watch->count++;
}

/* Looks at a directory, and where all is to be seen at those within it. `tell`: what is in it is new. A
 * directory that has gone meanwhile is none. */
static int look_into(FileWatch *watch, const char *path, const char *shown, bool tell, unsigned depth)
{
    int r = depth > LIMIT_FILE_DEPTH ? -ELOOP : add_node(watch, path, shown);
    DIR *stream = r == 0 && watch->recursive ? opendir(path) : NULL;
    const struct dirent *entry;
    Path below, below_shown;

    if (!stream)
        return r == -EEXIST ? 0 : r;
    while (r == 0 && (entry = readdir(stream))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (path_join(below, path, entry->d_name) < 0 || path_join(below_shown, shown, entry->d_name) < 0)
            continue;
        if (tell)
            note(watch, "created", below_shown);
        if (entry->d_type == DT_DIR) {
            r = look_into(watch, below, below_shown, tell, depth + 1);
            if (r != -ENOSPC && r != -ENOMEM)
                r = 0;
        }
    }
    closedir(stream);
    return r;
}

static const char *kind_of(uint32_t mask)
{
    if (mask & (IN_CREATE | IN_MOVED_TO))
        return "created";
    if (mask & (IN_DELETE | IN_DELETE_SELF))
        return "removed";
    return mask & (IN_MOVED_FROM | IN_MOVE_SELF) ? "moved" : "modified";
}

/* Forgets the directories at and below a path that has gone from there. */
static void forget_below(FileWatch *watch, const char *path)
{
    size_t n = strlen(path);

    for (size_t i = 0; i < watch->all->nodes_used; i++) {
        Node *node = &watch->all->nodes[i];

        if (node->path && node->watch == watch && strncmp(node->path, path, n) == 0 &&
            (node->path[n] == '/' || node->path[n] == '\0'))
            node_end(watch->all, node);
    }
}

/* The kernel calls a file without a name so until it has one. */
static bool is_unnamed(const char *name, const char *directory)
{
    Path path, inside;

    return name[0] == '#' && name[1] && !name[1 + strspn(name + 1, "0123456789")] &&
           path_join(path, directory, name) == 0 && path_take(inside, text_of(path)) == 0 &&
           faccessat(AT_FDCWD, inside, F_OK, AT_SYMLINK_NOFOLLOW) < 0;
}

static void take_named(FileWatch *watch, const char *directory, const struct inotify_event *event)
{
    Path path, inside;
    bool is_new = event->mask & (IN_CREATE | IN_MOVED_TO);

    if (strncmp(event->name, TEMPORARY, strlen(TEMPORARY)) == 0 || is_unnamed(event->name, directory) ||
        path_join(path, directory, event->name) < 0)
        return;
    note(watch, kind_of(event->mask), path);
    if (!watch->recursive || !(event->mask & IN_ISDIR))
        return;
    if (event->mask & (IN_MOVED_FROM | IN_DELETE))
        forget_below(watch, path);
    else if (is_new && path_take(inside, text_of(path)) == 0 &&
             look_into(watch, inside, path, true, 0) == -ENOSPC)
        watch->lost = true;
}

/* For one directory of a watch, whose node may go meanwhile. */
static void take_event(FileWatch *watch, const char *directory, const struct inotify_event *event)
{
    Path path;

    strcpy(path, directory);
    if (event->mask & IN_Q_OVERFLOW)
        watch->lost = true;
    else if (event->len > 0)
        take_named(watch, path, event);
    else if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF))
        note(watch, kind_of(event->mask), path);
    if (event->mask & IN_IGNORED)
        forget_below(watch, path);
}

static void distribute(Watching *watching, const struct inotify_event *event)
{
    for (size_t i = 0; i < watching->nodes_used; i++) {
        Node *node = &watching->nodes[i];

        if (node->path && (node->wd == event->wd || event->mask & IN_Q_OVERFLOW))
            take_event(node->watch, node->path, event);
    }
}

/* ---- answers ---- */

static void write_events(Writer *w, const void *source)
{
    const FileWatch *watch = source;

    write_array(w, watch->count);
    write_encoded(w, &watch->events);
}

static void watch_end(FileWatch *watch)
{
    Watching *watching = watch->all;

    for (size_t i = 0; i < watching->nodes_used; i++)
        if (watching->nodes[i].path && watching->nodes[i].watch == watch)
            node_end(watching, &watching->nodes[i]);
    loop_timer_cancel(&watch->due);
    if (watch->asked)
        files_fail(watching->files, watch->asked, -ESTALE, (Text){0});
    buf_deinit(&watch->events);
    *watch = (FileWatch){.all = watching};
}

/* The question that waits is answered with what there is. */
static void tell(FileWatch *watch)
{
    const MsgFileEventsReply reply = {.events = {.write = write_events, .source = watch}};
    uint64_t id = watch->asked;

    watch->asked = 0;
    loop_timer_cancel(&watch->due);
    if (watch->lost) {
        files_fail(watch->all->files, id, -EOVERFLOW, (Text){0});
        watch_end(watch);
        return;
    }
    if (files_reply(watch->all->files, id, MsgFileEventsReply, &reply) < 0)
        files_fail(watch->all->files, id, -ENOMEM, (Text){0});
    buf_clear(&watch->events);
    watch->count = watch->last = 0;
}

static void on_due(LoopTimer *timer)
{
    tell(container_of(timer, FileWatch, due));
}

static void on_inotify_ready(LoopFile *file, uint32_t events)
{
    Watching *watching = container_of(file, Watching, file);
    _Alignas(struct inotify_event) char bytes[64 << 10];
    ssize_t n = read(watching->fd, bytes, sizeof(bytes));

    for (ssize_t at = 0; at < n;) {
        const struct inotify_event *event = (const struct inotify_event *)(bytes + at);

        distribute(watching, event);
        at += (ssize_t)(sizeof(*event) + event->len);
    }
    for (size_t i = 0; i < LIMIT_WATCHES; i++)
        if (watching->watches[i].asked && (watching->watches[i].count > 0 || watching->watches[i].lost))
            tell(&watching->watches[i]);
}

/* ---- questions ---- */

static int prepare(Files *files)
{
    Watching *watching;
    int r;

    if (files->watching)
        return 0;
    watching = calloc(1, sizeof(*watching));
    if (!watching)
        return -ENOMEM;
    watching->files = files;
    watching->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    r = watching->fd < 0
            ? -errno
            : loop_file_add(files->loop, &watching->file, watching->fd, EPOLLIN, on_inotify_ready);
    if (r < 0) {
        close_fd(&watching->fd);
        free(watching);
        return r;
    }
    for (size_t i = 0; i < LIMIT_WATCHES; i++)
        watching->watches[i].all = watching;
    files->watching = watching;
    return 0;
}

/* A free place, or that of the one nobody has asked for the longest. */
static FileWatch *find_place(Watching *watching)
{
    FileWatch *oldest = NULL;

    for (size_t i = 0; i < LIMIT_WATCHES; i++) {
        FileWatch *watch = &watching->watches[i];

        if (watch->number == 0)
            return watch;
        if (!watch->asked && (!oldest || watch->used < oldest->used))
            oldest = watch;
    }
    if (oldest)
        watch_end(oldest);
    return oldest;
}

static FileWatch *find_watch(const Files *files, uint64_t number)
{
    for (size_t i = 0; files->watching && number > 0 && i < LIMIT_WATCHES; i++)
        if (files->watching->watches[i].number == number)
            return &files->watching->watches[i];
    return NULL;
}

int files_watch(Files *files, uint64_t id, const MsgFileWatch *ask)
{
    Path path, shown;
    FileWatch *watch;
    int r = path_take(path, ask->path);

    if (r == 0)
        r = path_show(shown, ask->path);
    if (r == 0)
        r = prepare(files);
    if (r < 0)
        return r;
    watch = find_place(files->watching);
    if (!watch)
        return -EMFILE;
    watch->number = ++files->last;
    watch->recursive = ask->recursive;
    watch->used = clock_now();
    r = look_into(watch, path, shown, false, 0);
    if (r < 0) {
        watch_end(watch);
        return r;
    }
    return files_reply(files, id, MsgFileWatchReply, &(MsgFileWatchReply){.watch = watch->number});
}

int files_events(Files *files, uint64_t id, const MsgFileEvents *ask)
{
    double timeout = ask->timeout >= 0 ? MIN(ask->timeout, WATCH_SECONDS) : WATCH_SECONDS;
    FileWatch *watch = find_watch(files, ask->watch);

    if (!watch)
        return -ESTALE;
    if (watch->asked)
        return -EBUSY;
    watch->asked = id;
    watch->used = clock_now();
    if (watch->count > 0 || watch->lost || timeout == 0)
        tell(watch);
    else if (loop_timer_set(files->loop, &watch->due, clock_now() + clock_from_seconds(timeout), on_due) <
             0) {
        watch->asked = 0;
        return -ENOMEM;
    }
    return 0;
}

int files_unwatch(Files *files, uint64_t id, const MsgFileUnwatch *ask)
{
    FileWatch *watch = find_watch(files, ask->watch);

    if (watch)
        watch_end(watch);
    return files_reply_empty(files, id);
}
