/* limpet_files_get_tree(): a directory of the sandbox to this machine. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clients/c/files.h"
#include "clients/c/landing.h"
#include "clients/c/tree.h"
#include "proto/base/fdio.h"

/* ---- contents of small files ---- */

typedef struct TreeFetch TreeFetch;
struct TreeFetch {
    LimpetClient *client;
    const char *session, *top; /* the directory that the files are below */
    size_t skipped;            /* bytes of an entry's path before what is below it */
    /* Called for each, in order: `row` has its data; or `error`; or neither, where it has grown too large. */
    int (*found)(TreeFetch *fetch, const LimpetEntry *entry, const MsgFileEntry *row);
};

static int ask(TreeFetch *fetch, const LimpetEntry *files, size_t n, Reply *reply, MsgFileFetchReply *said)
{
    _cleanup_(buf_deinit) Buf names = BUF_NULL;
    MsgFileAsk what = {.has_fetch = true, .fetch.path = text_of(fetch->top)};
    Writer w;
    int r;

    writer_init(&w, &names);
    write_array(&w, n);
    for (size_t i = 0; i < n; i++)
        body_write(&w, MsgFileName, &((MsgFileName){text_of(files[i].path + fetch->skipped)}));
    r = writer_finish(&w);
    if (r < 0)
        return r;
    what.fetch.files = value_encoded(&names);
    return files_ask(fetch->client, fetch->session, &what, false, reply, said, MsgFileFetchReply);
}

/* Asks for `n` files, and says in *ret how many of them have come. */
static int fetch_some(TreeFetch *fetch, const LimpetEntry *files, size_t n, size_t *ret)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    MsgFileFetchReply said;
    int r = ask(fetch, files, n, &reply, &said);

    if (r)
        return r;
    *ret = value_count(&said.files);
    if (*ret == 0 || *ret > n)
        return problem_set(&fetch->client->problem, ERR_PROTOCOL_MISMATCH,
                           "the sandbox answered for other files");
    for (uint32_t i = 0; r == 0 && i < *ret; i++) {
        MsgFileEntry row;

        value_row(&row, MsgFileEntry, &said.files, i);
        r = fetch->found(fetch, &files[i], &row);
    }
    return r;
}

/* As many as fit into one reply. */
static size_t batch(const LimpetEntry *files, size_t n)
{
    uint64_t bytes = 0;
    size_t end = 0;

    while (end < n && end < LIMIT_FILE_ENTRIES && (end == 0 || bytes + files[end].size <= LIMIT_FILE_CHUNK))
        bytes += files[end++].size;
    return end;
}

/* 0, or what `found` or the client said. */
static int tree_fetch(TreeFetch *fetch, const LimpetEntry *files, size_t n)
{
    int r = 0;

    for (size_t at = 0, come = 0; r == 0 && at < n; at += come)
        r = fetch_some(fetch, files + at, batch(files + at, n - at), &come);
    return r;
}

/* ---- the tree ---- */

typedef struct GetTree {
    LimpetClient *client;
    const char *session, *local;
    const char *top; /* absolute */
    size_t skipped;  /* bytes of a path before what is below the top */
    TreeProgress progress;
    Landing landing;
    TreeFetch fetch;
} GetTree;

static const char *below(const GetTree *get, const LimpetEntry *entry)
{
    return entry->path + get->skipped;
}

static bool is_a(const LimpetEntry *entry, const char *type)
{
    return strcmp(entry->type, type) == 0;
}

/* ---- what the sandbox says is there: hostile code may have chosen every name of it ---- */

static bool is_beneath(const GetTree *get, const char *path)
{
    return strlen(path) > get->skipped && strncmp(path, get->top, strlen(get->top)) == 0 &&
           path[get->skipped - 1] == '/' && tree_is_plain(path + get->skipped);
}

static size_t levels(const char *path)
{
    size_t n = 1;

    while ((path = strchr(path, '/'))) {
        path++;
        n++;
    }
    return n;
}

typedef struct TreeListing {
    const GetTree *get;
    const LimpetEntries *list; /* by path; each lies beneath the top */
} TreeListing;

static int compare_below(const void *key, const void *entry)
{
    const TreeListing *sought = ((const void *const *)key)[0];

    return strcmp(((const void *const *)key)[1], below(sought->get, entry));
}

static bool is_listed_directory(const void *context, const char *path)
{
    const TreeListing *listed = context;
    const void *const key[] = {listed, path};
    const LimpetEntry *found = bsearch(key, listed->list->entries, listed->list->n_entries,
                                       sizeof(*listed->list->entries), compare_below);

    return found && is_a(found, "directory");
}

static bool leads_out(const TreeListing *listed, const LimpetEntry *entry)
{
    return entry->target &&
           tree_leads_out(below(listed->get, entry), entry->target, is_listed_directory, listed);
}

static int check_entry(const GetTree *get, const LimpetEntry *entry)
{
    Problem *problem = &get->client->problem;

    if (!is_beneath(get, entry->path))
        return problem_set(problem, ERR_PROTOCOL_MISMATCH, "the sandbox listed '%s' in '%s'", entry->path,
                           get->top);
    if (entry->unreadable)
        return problem_set(problem, ERR_FILE_FAILED, "'%s': it may not be read", entry->path);
    if (is_a(entry, "directory") && levels(below(get, entry)) >= LIMIT_FILE_DEPTH)
        return problem_set(problem, ERR_FILE_FAILED, "'%s' lies too deep to be copied", entry->path);
    return 0;
}

static int check(GetTree *get, const LimpetEntries *list)
{
    const TreeListing listed = {get, list};
    TreeRefused refused = {0};
    int r = 0;

    for (size_t i = 0; r == 0 && i < list->n_entries; i++) {
        r = check_entry(get, &list->entries[i]);
        if (is_a(&list->entries[i], "file"))
            get->progress.whole += list->entries[i].size;
    }
    for (size_t i = 0; r == 0 && i < list->n_entries; i++)
        if (is_a(&list->entries[i], "other") || leads_out(&listed, &list->entries[i]))
            r = tree_refuse(&refused, below(get, &list->entries[i]));
    if (r == 0)
        return tree_refused_end(&refused, get->top, &get->client->problem);
    buf_deinit(&refused.names);
    return r;
}

/* ---- where it goes ---- */

static int cannot_write(const GetTree *get, const LimpetEntry *entry, int r)
{
    return problem_set(&get->client->problem, ERR_BAD_REQUEST, "cannot write '%s/%s': %s", get->local,
                       below(get, entry), strerror(-r));
}

static int land_data(GetTree *get, const LimpetEntry *entry, const Text *data)
{
    LandingFile file;
    int r = landing_file(&get->landing, below(get, entry), entry->mode, &file);

    if (r == 0)
        r = landing_file_end(&file, write_all(file.fd, data->data, data->size));
    return r < 0 ? cannot_write(get, entry, r) : 0;
}

static int read_large(GetTree *get, const LimpetEntry *entry)
{
    LandingFile file;
    int r = landing_file(&get->landing, below(get, entry), entry->mode, &file), failed;

    if (r < 0)
        return cannot_write(get, entry, r);
    failed = limpet_files_read(get->client, get->session, entry->path, file.fd);
    r = landing_file_end(&file, failed ? -EPROTO : 0);
    if (failed)
        return r;
    tree_progress(&get->progress, entry->size);
    return r < 0 ? cannot_write(get, entry, r) : 0;
}

/* ---- small ones, many in a message ---- */

static int land_row(TreeFetch *fetch, const LimpetEntry *entry, const MsgFileEntry *row)
{
    GetTree *get = container_of(fetch, GetTree, fetch);
    int r;

    if (row->error != NO_UINT)
        return problem_set(&get->client->problem, ERR_FILE_FAILED, "'%s': %s", entry->path,
                           strerror((int)row->error));
    if (!row->data.data) /* grown since */
        return read_large(get, entry);
    r = land_data(get, entry, &row->data);
    if (r == 0)
        tree_progress(&get->progress, entry->size);
    return r;
}

static int fetch_small(GetTree *get, const LimpetEntries *list)
{
    _cleanup_(freep) LimpetEntry *files = calloc(MAX(list->n_entries, (size_t)1), sizeof(LimpetEntry));
    size_t n = 0;
    int r = files ? 0 : -ENOMEM;

    for (size_t i = 0; files && i < list->n_entries; i++)
        if (is_a(&list->entries[i], "file") && list->entries[i].size <= TREE_SMALL)
            files[n++] = list->entries[i];
    return r ? r : tree_fetch(&get->fetch, files, n);
}

/* ---- all of it ---- */

static int land_directory(GetTree *get, const LimpetEntry *entry)
{
    int r = is_a(entry, "directory") ? landing_directory(&get->landing, below(get, entry)) : 0;

    return r < 0 ? cannot_write(get, entry, r) : 0;
}

static int land_large(GetTree *get, const LimpetEntry *entry)
{
    return is_a(entry, "file") && entry->size > TREE_SMALL ? read_large(get, entry) : 0;
}

static int land_symlink(GetTree *get, const LimpetEntry *entry)
{
    int r = entry->target ? landing_symlink(&get->landing, below(get, entry), entry->target) : 0;

    return r < 0 ? cannot_write(get, entry, r) : 0;
}

static int each(GetTree *get, const LimpetEntries *list, int (*land)(GetTree *get, const LimpetEntry *entry))
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < list->n_entries; i++)
        r = land(get, &list->entries[i]);
    return r;
}

static int copy(GetTree *get, const LimpetEntries *list)
{
    int r = check(get, list);

    if (r < 0)
        return r;
    r = landing_init(&get->landing, get->local);
    if (r < 0)
        return problem_set(&get->client->problem, ERR_BAD_REQUEST, "cannot write '%s': %s", get->local,
                           strerror(-r));
    r = each(get, list, land_directory);
    if (r == 0)
        r = fetch_small(get, list);
    if (r == 0)
        r = each(get, list, land_large);
    return r == 0 ? each(get, list, land_symlink) : r;
}

static void free_entries(LimpetEntries **entries)
{
    limpet_entries_free(*entries);
}

int limpet_files_get_tree(LimpetClient *client, const char *session, const char *path, const char *local,
                          LimpetOnProgress *on_progress, void *context)
{
    _cleanup_(free_entries) LimpetEntries *top = NULL, *list = NULL;
    GetTree get = {
        .client = client,
        .session = session,
        .local = local,
        .progress = {.tell = on_progress, .context = context},
        .landing = LANDING_NULL,
    };
    int r = limpet_files_stat(client, session, path, &top);

    if (r)
        return r;
    get.top = top->entries[0].path;
    get.skipped = strlen(get.top) + (strcmp(get.top, "/") != 0);
    get.fetch = (TreeFetch){client, session, get.top, get.skipped, land_row};
    r = limpet_files_list(client, session, get.top, LIMIT_FILE_DEPTH, &list);
    if (r)
        return r;
    r = copy(&get, list);
    landing_deinit(&get.landing);
    return client_result(client, r);
}
