#include <errno.h>
#include <string.h>

#include "clients/c/saving/pack.h"
#include "clients/c/sandbox_files.h"

#define ATTEMPTS 3 /* at a file that changes while it is read */

/* Extents of a file's data, as they are found out. */
typedef struct Extents {
    Extent *all;
    size_t n, capacity;
    uint64_t size; /* of the whole file */
    uint64_t file; /* tells it from another */
} Extents;

/* Adds an extent, as a part of the last one if it begins where that ends. */
static int add(Extents *extents, uint64_t start, uint64_t end)
{
    Extent *last = extents->n > 0 ? &extents->all[extents->n - 1] : NULL, *space;

    if (last && last->start + last->size == start) {
        last->size = end - last->start;
        return 0;
    }
    if (extents->n == extents->capacity) {
        extents->capacity = MAX(2 * extents->capacity, (size_t)16);
        space = realloc(extents->all, extents->capacity * sizeof(*space));
        if (!space)
            return -ENOMEM;
        extents->all = space;
    }
    extents->all[extents->n++] = (Extent){start, end - start};
    return 0;
}

static int read_at(Packing *packing, const MsgFileRead *piece, Reply *reply, MsgFileReadReply *said)
{
    const MsgFileAsk what = {.has_read = true, .read = *piece};
    int r = files_ask(packing->client, packing->session, &what, false, reply, said, MsgFileReadReply);

    if (!r && (said->offset < piece->offset || said->data.size > piece->size))
        r = problem_set(&packing->client->problem, ERR_PROTOCOL_MISMATCH,
                        "the controller answered with another piece");
    return r;
}

static int find_extents(Packing *packing, const char *path, Extents *ret)
{
    MsgFileRead piece = {.path = text_of(path), .offset = 0, .size = 1, .file = NO_UINT};

    for (;;) {
        _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
        MsgFileReadReply said;
        int r = read_at(packing, &piece, &reply, &said);

        if (r)
            return r;
        ret->size = said.size;
        ret->file = piece.file = said.file;
        if (said.data.size == 0 || said.offset >= said.size)
            return 0;
        if (said.size > INT64_MAX || ret->n >= ARCHIVE_PARTS_MAX)
            return problem_set(&packing->client->problem, ERR_TOO_LARGE, "'%s' is too large to be saved",
                               path);
        piece.offset = MIN(said.offset + LIMIT_FILE_CHUNK, said.size);
        r = add(ret, said.offset, piece.offset);
        if (r < 0 || piece.offset >= said.size)
            return r;
    }
}

/* The next piece of an extent; where there is a hole by now, or the file ends, there are zeros. */
static int copy_piece(Packing *packing, MsgFileRead *piece, uint64_t end)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    uint64_t left = end - piece->offset, zeros;
    MsgFileReadReply said;
    int r;

    piece->size = MIN(left, LIMIT_FILE_CHUNK);
    r = read_at(packing, piece, &reply, &said);
    if (r)
        return r;
    if (said.offset > piece->offset || said.data.size == 0) {
        zeros = said.data.size == 0 ? left : MIN(said.offset - piece->offset, left);
        piece->offset += zeros;
        return archive_write_zeros(&packing->archive, zeros);
    }
    piece->offset += said.data.size;
    return archive_write(&packing->archive, said.data.data, said.data.size);
}

static int copy_extents(Packing *packing, const char *path, const Extents *extents)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < extents->n; i++) {
        MsgFileRead piece = {.path = text_of(path), .offset = extents->all[i].start, .file = extents->file};
        uint64_t end = extents->all[i].start + extents->all[i].size;

        while (r == 0 && piece.offset < end)
            r = copy_piece(packing, &piece, end);
    }
    return r;
}

static int pack_once(Packing *packing, const char *path, const Member *member)
{
    Extents extents = {0};
    Member sized = *member;
    int r = find_extents(packing, path, &extents);

    if (r == 0) {
        sized.size = extents.size;
        sized.extents = extents.all;
        sized.n_extents = extents.n;
        r = archive_begin(&packing->archive, &sized);
    }
    if (r == 0)
        r = copy_extents(packing, path, &extents);
    if (r == 0)
        r = archive_end(&packing->archive);
    free(extents.all);
    return r;
}

static void free_mark(ArchiveMark *mark)
{
    archive_mark_deinit(mark);
}

int pack_file(Packing *packing, const char *path, const Member *member)
{
    _cleanup_(free_mark) ArchiveMark mark = ARCHIVE_MARK_NULL;
    LimpetClient *client = packing->client;
    int r = archive_mark(&packing->archive, &mark);

    for (int attempt = 1; r == 0; attempt++) {
        r = pack_once(packing, path, member);
        if (r != -EPROTO || client->problem.code != ERR_FILE_FAILED)
            return r;
        if (archive_back(&packing->archive, &mark) < 0)
            return -EPROTO;
        if (strcmp(client->file_error, "ESTALE") != 0 || attempt == ATTEMPTS)
            return r;
        r = 0;
    }
    return r;
}
