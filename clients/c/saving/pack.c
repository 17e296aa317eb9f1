#include "clients/c/saving/pack.h"

#include <errno.h>
#include <string.h>

#include "clients/c/saving/archive_check.h"

#define ARTIFACTS "artifacts" /* a directory that every session has, and that is not its own */

static const char *below(const LimpetEntry *entry)
{
    return entry->path + strlen(SAVING_TOP "/");
}

static bool is_a(const LimpetEntry *entry, const char *type)
{
    return strcmp(entry->type, type) == 0;
}

static bool is_small(const LimpetEntry *entry)
{
    return is_a(entry, "file") && entry->size <= TREE_SMALL;
}

/* ---- what is saved ---- */

static size_t levels(const char *path)
{
    size_t n = 1;

    for (; *path; path++)
        n += *path == '/';
    return n;
}

/* 1: it is saved. Of what is neither file, directory nor link the sandbox tells itself. */
static int select_entry(Packing *packing, const LimpetEntry *entry)
{
    int r = 0;

    if (strncmp(entry->path, SAVING_TOP "/", strlen(SAVING_TOP "/")) != 0 || !tree_is_plain(below(entry)))
        return problem_set(&packing->client->problem, ERR_PROTOCOL_MISMATCH,
                           "the sandbox listed '%s' in '%s'", entry->path, SAVING_TOP);
    if (strncmp(below(entry), SAVING_OWN, strlen(SAVING_OWN)) == 0 || strcmp(below(entry), ARTIFACTS) == 0 ||
        is_a(entry, "other"))
        return 0;
    if (entry->unreadable)
        r = note_list_add(&packing->skipped, "%s: it may not be read", entry->path);
    else if (is_a(entry, "directory") && levels(below(entry)) >= LIMIT_FILE_DEPTH)
        r = note_list_add(&packing->skipped, "%s: it lies too deep", entry->path);
    return r < 0 ? r : 1;
}

int pack_select(Packing *packing, const LimpetEntries *list, LimpetEntry **ret_entries, size_t *ret_n)
{
    _cleanup_(freep) LimpetEntry *entries = calloc(MAX(list->n_entries, (size_t)1), sizeof(*entries));
    size_t n = 0;

    if (!entries)
        return -ENOMEM;
    for (size_t i = 0; i < list->n_entries; i++) {
        int r = select_entry(packing, &list->entries[i]);

        if (r < 0)
            return r;
        if (r == 0)
            continue;
        entries[n++] = list->entries[i];
        if (is_a(&list->entries[i], "file"))
            packing->progress.whole += list->entries[i].size;
    }
    *ret_entries = take(entries);
    *ret_n = n;
    return 0;
}

/* ---- its way ---- */

/* As the archive has it; the name is to be freed. */
static int member_of(const LimpetEntry *entry, Member *ret, char **ret_name)
{
    bool directory = is_a(entry, "directory");

    if (asprintf(ret_name, "%s%s%s", ARCHIVE_FILES, below(entry), directory ? "/" : "") < 0) {
        *ret_name = NULL;
        return -ENOMEM;
    }
    *ret = (Member){.kind = directory       ? MEMBER_DIRECTORY
                            : entry->target ? MEMBER_SYMLINK
                                            : MEMBER_FILE,
                    .name = *ret_name,
                    .target = entry->target,
                    .mode = entry->mode,
                    .modified = entry->modified};
    return 0;
}

/* Notes an entry that is skipped, unless it has gone meanwhile. */
static int note(Packing *packing, const LimpetEntry *entry, bool is_gone, const char *why)
{
    return is_gone ? 0 : note_list_add(&packing->skipped, "%s: %s", entry->path, why);
}

static int pack_large(Packing *packing, const LimpetEntry *entry)
{
    _cleanup_(freep) char *name = NULL;
    LimpetClient *client = packing->client;
    Member member;
    int r = member_of(entry, &member, &name);

    if (r == 0)
        r = pack_file(packing, entry->path, &member);
    if (r == -EPROTO && client->problem.code == ERR_FILE_FAILED)
        r = note(packing, entry, strcmp(client->file_error, "ENOENT") == 0, client->problem.text);
    if (r == 0)
        tree_progress(&packing->progress, entry->size);
    return r;
}

static int take_small(TreeFetch *fetch, const LimpetEntry *entry, const MsgFileEntry *row)
{
    Packing *packing = container_of(fetch, Packing, fetch);
    _cleanup_(freep) char *name = NULL;
    Member member;
    int r;

    if (row->error != NO_UINT)
        return note(packing, entry, row->error == ENOENT, strerror((int)row->error));
    if (!row->data.data) /* grown since */
        return pack_large(packing, entry);
    r = member_of(entry, &member, &name);
    if (r < 0)
        return r;
    member.size = row->data.size;
    member.extents = &(Extent){0, row->data.size};
    member.n_extents = 1;
    r = archive_add(&packing->archive, &member, row->data.data);
    if (r == 0)
        tree_progress(&packing->progress, entry->size);
    return r;
}

static int pack_small(Packing *packing, const LimpetEntry *entries, size_t n)
{
    _cleanup_(freep) LimpetEntry *files = calloc(MAX(n, (size_t)1), sizeof(*files));
    size_t n_files = 0;

    if (!files)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (is_small(&entries[i]))
            files[n_files++] = entries[i];
    packing->fetch =
        (TreeFetch){packing->client, packing->session, SAVING_TOP, strlen(SAVING_TOP "/"), take_small};
    return tree_fetch(&packing->fetch, files, n_files);
}

static int pack_without_data(Packing *packing, const LimpetEntry *entry)
{
    _cleanup_(freep) char *name = NULL;
    Member member;
    int r = member_of(entry, &member, &name);

    return r ? r : archive_begin(&packing->archive, &member);
}

int pack_entries(Packing *packing, const LimpetEntry *entries, size_t n)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++)
        if (!is_a(&entries[i], "file"))
            r = pack_without_data(packing, &entries[i]);
    if (r == 0)
        r = pack_small(packing, entries, n);
    for (size_t i = 0; r == 0 && i < n; i++)
        if (is_a(&entries[i], "file") && !is_small(&entries[i]))
            r = pack_large(packing, &entries[i]);
    return r;
}
