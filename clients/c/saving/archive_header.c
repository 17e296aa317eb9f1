#include "clients/c/saving/archive_header.h"

#include <errno.h>
#include <string.h>

#include "clients/c/saving/tar.h"

/* A name or target that has a block of its own. */
static int take_long(ArchiveReader *archive, uint64_t size, Buf *ret)
{
    uint8_t padding[ARCHIVE_BLOCK];
    uint8_t *to;
    int r;

    if (size > ARCHIVE_NAME_MAX)
        return archive_damaged(archive, "is malformed: a name is too long");
    buf_clear(ret);
    to = buf_reserve(ret, (size_t)size + 1);
    if (!to)
        return -ENOMEM;
    r = archive_take(archive, to, (size_t)size);
    if (r == 0)
        r = archive_take(archive, padding, archive_padding(size));
    if (r < 0)
        return r;
    to[size] = '\0';
    if (size == 0 || strlen((char *)to) != size - 1)
        return archive_damaged(archive, "is malformed: a name does not end where it should");
    buf_commit(ret, (size_t)size);
    return 0;
}

static int add_extents(ArchiveReader *archive, const Extent *extents, size_t n)
{
    size_t capacity = MAX(2 * archive->capacity, (size_t)64);
    Extent *space;

    if (archive->n_extents + n > archive->capacity) {
        space = realloc(archive->extents, capacity * sizeof(*space));
        if (!space)
            return -ENOMEM;
        archive->extents = space;
        archive->capacity = capacity;
    }
    if (n > 0)
        memcpy(archive->extents + archive->n_extents, extents, n * sizeof(*extents));
    archive->n_extents += n;
    return 0;
}

static int take_parts(ArchiveReader *archive, uint8_t block[static ARCHIVE_BLOCK])
{
    bool more = false;

    for (;;) {
        Extent parts[TAR_PARTS_MORE];
        int n = tar_parse_parts(parts, block, more, &more), r;

        if (n < 0)
            return archive_damaged(archive, "is malformed: the parts of a file cannot be read");
        if (archive->n_extents + (size_t)n > ARCHIVE_PARTS_MAX)
            return archive_damaged(archive, "is malformed: a file has too many parts");
        r = add_extents(archive, parts, (size_t)n);
        if (r < 0 || !more)
            return r;
        r = archive_take(archive, block, ARCHIVE_BLOCK);
        if (r < 0)
            return r;
    }
}

static int check_parts(const ArchiveReader *archive, uint64_t stored)
{
    uint64_t reached = 0, sum = 0;

    for (size_t i = 0; i < archive->n_extents; i++) {
        const Extent *extent = &archive->extents[i];

        if (extent->start < reached || extent->start > archive->member.size ||
            extent->size > archive->member.size - extent->start)
            return archive_damaged(archive, "is malformed: the parts of a file overlap");
        reached = extent->start + extent->size;
        sum += extent->size;
    }
    return sum == stored ? 0
                         : archive_damaged(archive, "is malformed: the parts of a file are not all there");
}

static int take_extents(ArchiveReader *archive, const TarHeader *header, uint8_t *block)
{
    int r;

    archive->n_extents = 0;
    archive->member.size = header->size;
    if (header->type != TAR_SPARSE)
        return add_extents(archive, &(Extent){0, header->size}, 1);
    if (tar_parse_size(&archive->member.size, block) < 0)
        return archive_damaged(archive, "is malformed: the size of a file cannot be read");
    r = take_parts(archive, block);
    return r ? r : check_parts(archive, header->size);
}

static int kind_of(char type, MemberKind *ret)
{
    switch (type) {
    case TAR_FILE:
    case TAR_FILE_OLD:
    case TAR_SPARSE:
        *ret = MEMBER_FILE;
        return 0;
    case TAR_DIRECTORY:
        *ret = MEMBER_DIRECTORY;
        return 0;
    case TAR_SYMLINK:
        *ret = MEMBER_SYMLINK;
        return 0;
    default:
        return -EBADMSG;
    }
}

/* Headers up to that of a member itself; what is in front of it has longer names. */
static int take_header(ArchiveReader *archive, TarHeader *header, uint8_t *block)
{
    int r;

    buf_clear(&archive->name);
    buf_clear(&archive->target);
    for (;;) {
        r = archive_take(archive, block, ARCHIVE_BLOCK);
        if (r < 0)
            return r;
        if (tar_parse(header, block) < 0)
            return archive_damaged(archive, "is malformed: bad header");
        if (header->type != TAR_LONG_NAME && header->type != TAR_LONG_TARGET)
            return 0;
        r = take_long(archive, header->size,
                      header->type == TAR_LONG_NAME ? &archive->name : &archive->target);
        if (r < 0)
            return r;
    }
}

/* Kept where the member may point to it; a directory's name without its slash. */
static int keep_text(Buf *kept, const char *text, bool directory)
{
    char *end;

    if (kept->size == 0 && buf_append(kept, text, strlen(text) + 1) < 0)
        return -ENOMEM;
    end = (char *)buf_head(kept) + kept->size - 1;
    if (directory && kept->size > 2 && end[-1] == '/')
        end[-1] = '\0';
    return 0;
}

int archive_take_member(ArchiveReader *archive)
{
    uint8_t block[ARCHIVE_BLOCK];
    TarHeader header;
    Member *member = &archive->member;
    int r = take_header(archive, &header, block);

    if (r < 0)
        return r;
    *member = (Member){.mode = header.mode, .modified = (double)header.modified};
    if (kind_of(header.type, &member->kind) < 0)
        return archive_damaged(archive, "is malformed: '%.200s' is no file, directory or link",
                               archive->name.size ? (char *)buf_head(&archive->name) : header.name);
    if (keep_text(&archive->name, header.name, member->kind == MEMBER_DIRECTORY) < 0 ||
        keep_text(&archive->target, header.target, false) < 0)
        return -ENOMEM;
    member->name = (char *)buf_head(&archive->name);
    if (member->kind == MEMBER_SYMLINK)
        member->target = (char *)buf_head(&archive->target);
    if (member->kind == MEMBER_FILE)
        return take_extents(archive, &header, block);
    archive->n_extents = 0;
    return header.size == 0 ? 0 : archive_damaged(archive, "is malformed: what has no data has some");
}
