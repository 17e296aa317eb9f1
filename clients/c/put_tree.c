/* limpet_files_put_tree(): a local directory into the sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "clients/c/files.h"
#include "clients/c/tree.h"
#include "proto/base/fdio.h"

/* ---- small files on their way ---- */

typedef struct TreeStore {
    LimpetClient *client;
    const char *session, *top; /* the directory that they will be below */
    TreeProgress *progress;    /* is told of bytes that are there */
    Buf rows;                  /* of the message under way, encoded */
    uint32_t n_rows;
    size_t n_bytes;
} TreeStore;

/* Sends the rest. */
static int tree_store_end(TreeStore *store)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    _cleanup_(buf_deinit) Buf list = BUF_NULL;
    MsgFileAsk what = {.has_store = true, .store.path = text_of(store->top)};
    MsgNothing nothing;
    Writer w;
    int r;

    if (store->n_rows == 0)
        return 0;
    writer_init(&w, &list);
    write_array(&w, store->n_rows);
    write_encoded(&w, &store->rows);
    r = writer_finish(&w);
    if (r < 0)
        return r;
    what.store.entries = value_encoded(&list);
    r = files_ask(store->client, store->session, &what, false, &reply, &nothing, MsgNothing);
    if (!r)
        tree_progress(store->progress, store->n_bytes);
    buf_clear(&store->rows);
    store->n_rows = 0;
    store->n_bytes = 0;
    return r;
}

/* Sends what was added before where the row has no room beside it. Its path is below the top. */
static int tree_store_add(TreeStore *store, const MsgFileEntry *row)
{
    int r = 0;

    if (store->n_rows == LIMIT_FILE_ENTRIES || store->n_bytes + row->data.size > LIMIT_FILE_CHUNK)
        r = tree_store_end(store);
    if (r == 0)
        r = body_encode(&store->rows, MsgFileEntry, row);
    store->n_rows++;
    store->n_bytes += row->data.size;
    return r;
}

/* ---- the tree ---- */

/* A copy of a tree: the first walk of the local directory looks, the next ones copy. */
typedef struct PutTree {
    LimpetClient *client;
    const char *session, *top, *local;
    TreeProgress progress;
    TreeRefused refused;
    TreeStore store;
    FTSENT *entry;     /* where the walk is */
    const char *below; /* its path below `local` */
} PutTree;

static int cannot_read(PutTree *put, int error)
{
    return problem_set(&put->client->problem, ERR_BAD_REQUEST, "cannot read '%s': %s", put->entry->fts_path,
                       strerror(error));
}

/* ---- the walk ---- */

static int visit_entry(PutTree *put, int (*visit)(PutTree *put))
{
    switch (put->entry->fts_info) {
    case FTS_D:
    case FTS_F:
    case FTS_SL:
    case FTS_SLNONE:
    case FTS_DEFAULT:
        return put->entry->fts_level > 0 ? visit(put) : 0;
    case FTS_DP:
        return 0;
    case FTS_DC:
        return cannot_read(put, ELOOP);
    default:
        return cannot_read(put, put->entry->fts_errno);
    }
}

/* Calls `visit` for all below the top, each directory before what is in it. */
static int walk(PutTree *put, int (*visit)(PutTree *put))
{
    char *const tops[] = {(char *)put->local, NULL};
    FTS *fts = fts_open(tops, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
    size_t skipped = strlen(put->local) + (put->local[strlen(put->local) - 1] != '/');
    int r = fts ? 0 : -errno;

    while (r == 0 && (errno = 0, put->entry = fts_read(fts))) {
        put->below = put->entry->fts_path + MIN(skipped, (size_t)put->entry->fts_pathlen);
        r = visit_entry(put, visit);
    }
    if (r == 0 && errno != 0)
        r = problem_set(&put->client->problem, ERR_BAD_REQUEST, "cannot read '%s': %s", put->local,
                        strerror(errno));
    if (fts)
        fts_close(fts);
    return r;
}

/* Terminated. */
static int read_target(const PutTree *put, char *to, size_t size)
{
    ssize_t n = readlink(put->entry->fts_accpath, to, size - 1);

    if (n < 0)
        return -errno;
    to[n] = '\0';
    return 0;
}

/* Each part of the path is one: none is a link to one. */
static bool is_local_directory(const void *context, const char *path)
{
    const PutTree *put = context;
    _cleanup_(freep) char *whole = tree_path(put->local, path);
    size_t n = whole ? strlen(whole) - strlen(path) : 0;
    struct stat found;

    while (whole && n < strlen(whole)) {
        char *slash = strchr(whole + n, '/');

        if (slash)
            *slash = '\0';
        if (lstat(whole, &found) < 0 || !S_ISDIR(found.st_mode))
            return false;
        if (!slash)
            return true;
        *slash = '/';
        n = (size_t)(slash - whole) + 1;
    }
    return false;
}

static int look(PutTree *put)
{
    char target[PATH_MAX];
    mode_t mode = put->entry->fts_statp->st_mode;

    if (S_ISREG(mode))
        put->progress.whole += (uint64_t)put->entry->fts_statp->st_size;
    if (S_ISREG(mode) || S_ISDIR(mode))
        return 0;
    if (!S_ISLNK(mode) || read_target(put, target, sizeof(target)) < 0 ||
        tree_leads_out(put->below, target, is_local_directory, put))
        return tree_refuse(&put->refused, put->below);
    return 0;
}

/* ---- small ones, many in a message ---- */

static bool is_large(const PutTree *put)
{
    return S_ISREG(put->entry->fts_statp->st_mode) && put->entry->fts_statp->st_size > TREE_SMALL;
}

static int add_file(PutTree *put, MsgFileEntry *row)
{
    _cleanup_(closep) int fd = open(put->entry->fts_accpath, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    _cleanup_(freep) uint8_t *bytes = malloc(LIMIT_FILE_CHUNK);
    ssize_t n;

    if (!bytes)
        return -ENOMEM;
    n = fd < 0 ? -errno : read_whole(fd, bytes, LIMIT_FILE_CHUNK);
    if (n < 0)
        return cannot_read(put, (int)-n);
    row->type = text_of("file");
    row->data = (Text){(const char *)bytes, (size_t)n};
    return tree_store_add(&put->store, row);
}

/* A directory that may not be written to gets its mode when all is in it. */
static int store_small(PutTree *put)
{
    mode_t mode = put->entry->fts_statp->st_mode;
    MsgFileEntry row = {.path = text_of(put->below),
                        .mode = mode & 07777,
                        .size = NO_UINT,
                        .error = NO_UINT,
                        .modified = NAN};
    char target[PATH_MAX];
    int r;

    if (is_large(put))
        return 0;
    if (S_ISREG(mode))
        return add_file(put, &row);
    if (S_ISDIR(mode)) {
        row.type = text_of("directory");
        row.mode |= 0700;
        return tree_store_add(&put->store, &row);
    }
    r = read_target(put, target, sizeof(target));
    if (r < 0)
        return cannot_read(put, -r);
    row.type = text_of("symlink");
    row.mode = NO_UINT;
    row.target = text_of(target);
    return tree_store_add(&put->store, &row);
}

/* ---- the rest ---- */

/* Returns whether it is where only clients write, to whose files and directories the controller gives modes.
 */
static bool is_data(const char *path)
{
    return strncmp(path, "/data", 5) == 0 && (path[5] == '/' || !path[5]);
}

static int store_large(PutTree *put)
{
    _cleanup_(freep) char *path = NULL;
    _cleanup_(closep) int fd = -1;
    int r;

    if (!is_large(put))
        return 0;
    fd = open(put->entry->fts_accpath, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return cannot_read(put, errno);
    path = tree_path(put->top, put->below);
    if (!path)
        return -ENOMEM;
    r = is_data(path) ? limpet_put(put->client, put->session, path, fd)
                      : limpet_files_write(put->client, put->session, path, fd,
                                           put->entry->fts_statp->st_mode & 07777, false);
    if (r)
        return -EPROTO;
    tree_progress(&put->progress, (uint64_t)put->entry->fts_statp->st_size);
    return 0;
}

static int close_directory(PutTree *put)
{
    mode_t mode = put->entry->fts_statp->st_mode;
    const MsgFileEntry row = {.path = text_of(put->below),
                              .type = text_of("directory"),
                              .mode = mode & 07777,
                              .size = NO_UINT,
                              .error = NO_UINT,
                              .modified = NAN};

    return S_ISDIR(mode) && (mode & 0300) != 0300 ? tree_store_add(&put->store, &row) : 0;
}

static int copy(PutTree *put)
{
    int r = walk(put, look);

    if (!r)
        r = tree_refused_end(&put->refused, put->local, &put->client->problem);
    if (!r && !is_data(put->top) && limpet_files_mkdir(put->client, put->session, put->top, true))
        r = -EPROTO;
    if (!r)
        r = walk(put, store_small);
    if (!r)
        r = tree_store_end(&put->store);
    if (!r)
        r = walk(put, store_large);
    if (!r)
        r = walk(put, close_directory);
    return r ? r : tree_store_end(&put->store);
}

int limpet_files_put_tree(LimpetClient *client, const char *session, const char *local, const char *path,
                          LimpetOnProgress *on_progress, void *context)
{
    PutTree put = {
        .client = client,
        .session = session,
        .top = path,
        .local = local,
        .progress = {.tell = on_progress, .context = context},
    };
    int r;

    put.store = (TreeStore){.client = client, .session = session, .top = path, .progress = &put.progress};
    client->problem = PROBLEM_NULL;
    r = *local ? copy(&put) : problem_set(&client->problem, ERR_BAD_REQUEST, "the local path is empty");
    buf_deinit(&put.refused.names);
    buf_deinit(&put.store.rows);
    return client_result(client, r);
}
