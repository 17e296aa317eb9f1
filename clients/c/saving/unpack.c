#include "clients/c/saving/unpack.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "clients/c/saving/archive_check.h"
#include "clients/c/saving/pack.h"
#include "clients/c/sandbox_files.h"

/* A directory that nothing could be put into any more. */
typedef struct ClosedDirectory {
    char *path;
    unsigned mode;
} ClosedDirectory;

typedef struct Unpacking {
    LimpetClient *client;
    const char *session;
    ArchiveReader *archive;
    const char *place; /* below /session */
    TreeStore store;
    ClosedDirectory *closed;
    size_t n_closed, capacity;
} Unpacking;

static MsgFileEntry row_of(const char *path, const char *type, unsigned mode)
{
    return (MsgFileEntry){.path = text_of(path),
                          .type = text_of(type),
                          .mode = mode,
                          .size = NO_UINT,
                          .error = NO_UINT,
                          .modified = NAN};
}

/* ---- directories get their modes when all is in them ---- */

static int remember_closed(Unpacking *unpacking, const char *path, unsigned mode)
{
    char *copy;

    if (unpacking->n_closed == unpacking->capacity) {
        size_t capacity = MAX(2 * unpacking->capacity, (size_t)16);
        ClosedDirectory *space = realloc(unpacking->closed, capacity * sizeof(*space));

        if (!space)
            return -ENOMEM;
        unpacking->closed = space;
        unpacking->capacity = capacity;
    }
    copy = strdup(path);
    if (!copy)
        return -ENOMEM;
    unpacking->closed[unpacking->n_closed++] = (ClosedDirectory){copy, mode};
    return 0;
}

static int close_directories(Unpacking *unpacking)
{
    int r = 0;

    for (size_t i = unpacking->n_closed; r == 0 && i-- > 0;) {
        const MsgFileEntry row = row_of(unpacking->closed[i].path, "directory", unpacking->closed[i].mode);

        r = tree_store_add(&unpacking->store, &row);
    }
    return r;
}

/* ---- members ---- */

static int send_directory(Unpacking *unpacking, const char *path)
{
    unsigned mode = unpacking->archive->member.mode;
    const MsgFileEntry row = row_of(path, "directory", mode | 0700);
    int r = (mode & 0300) != 0300 ? remember_closed(unpacking, path, mode) : 0;

    return r ? r : tree_store_add(&unpacking->store, &row);
}

static int send_link(Unpacking *unpacking, const char *path)
{
    MsgFileEntry row = row_of(path, "symlink", 0);

    row.mode = NO_UINT;
    row.target = text_of(unpacking->archive->member.target);
    return tree_store_add(&unpacking->store, &row);
}

static int send_small(Unpacking *unpacking, const char *path)
{
    _cleanup_(buf_deinit) Buf data = BUF_NULL;
    MsgFileEntry row = row_of(path, "file", unpacking->archive->member.mode);
    int r = archive_whole(unpacking->archive, &data);

    if (r < 0)
        return r;
    row.data = (Text){(const char *)buf_head(&data), data.size};
    row.modified = unpacking->archive->member.modified;
    return tree_store_add(&unpacking->store, &row);
}

static int write_data(Unpacking *unpacking, MsgFileWrite *upload)
{
    ArchivePiece piece;
    int r;

    while ((r = archive_piece(unpacking->archive, &piece)) > 0) {
        upload->offset = piece.offset;
        upload->data = (Text){(const char *)piece.bytes, piece.size};
        r = files_write_piece(unpacking->client, unpacking->session, upload);
        if (r)
            return r;
        tree_progress(unpacking->store.progress, piece.size);
    }
    return r;
}

/* In pieces; what lies between them is a hole. */
static int send_large(Unpacking *unpacking, const char *path)
{
    _cleanup_(freep) char *absolute = NULL;
    const Member *member = &unpacking->archive->member;
    MsgFileWrite upload = {.upload = NO_UINT,
                           .offset = 0,
                           .data = text_of(""),
                           .mode = member->mode,
                           .modified = member->modified,
                           .parents = true};
    int r;

    if (asprintf(&absolute, "%s/%s", SAVING_TOP, path) < 0) {
        absolute = NULL;
        return -ENOMEM;
    }
    upload.path = text_of(absolute);
    r = files_write_piece(unpacking->client, unpacking->session, &upload);
    if (r == 0)
        r = write_data(unpacking, &upload);
    if (r)
        return r;
    upload.offset = member->size;
    upload.data = text_of("");
    upload.last = true;
    return files_write_piece(unpacking->client, unpacking->session, &upload);
}

static int send_member(Unpacking *unpacking)
{
    const Member *member = &unpacking->archive->member;
    const char *path = archive_path(member);
    _cleanup_(freep) char *own = NULL;

    if (!path) {
        if (asprintf(&own, "%s/%s", unpacking->place, member->name) < 0) {
            own = NULL;
            return -ENOMEM;
        }
        path = own;
    }
    if (member->kind == MEMBER_DIRECTORY)
        return send_directory(unpacking, path);
    if (member->kind == MEMBER_SYMLINK)
        return send_link(unpacking, path);
    return member->size > TREE_SMALL ? send_large(unpacking, path) : send_small(unpacking, path);
}

static int send_all(Unpacking *unpacking)
{
    int r;

    while ((r = archive_next(unpacking->archive)) > 0) {
        r = send_member(unpacking);
        if (r < 0)
            return r;
    }
    if (r == 0)
        r = close_directories(unpacking);
    return r ? r : tree_store_end(&unpacking->store);
}

int unpack(LimpetClient *client, const char *session, ArchiveReader *archive, const char *place,
           TreeProgress *progress)
{
    Unpacking unpacking = {
        .client = client,
        .session = session,
        .archive = archive,
        .place = place + strlen(SAVING_TOP "/"),
        .store = {.client = client, .session = session, .top = SAVING_TOP, .progress = progress},
    };
    int r = send_all(&unpacking);

    tree_store_deinit(&unpacking.store);
    while (unpacking.n_closed > 0)
        free(unpacking.closed[--unpacking.n_closed].path);
    free(unpacking.closed);
    return r;
}
