/* A saved session that somebody has made: whatever is taken of it lies below /session and within its files;
 * and what a sandbox says of its variables. The bytes get the right checksum behind them, and are read as
 * they are, too. */
/* Proves: security: saved sessions that somebody else made */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "clients/c/saving/archive_check.h"
#include "clients/c/saving/archive_writer.h"
#include "clients/c/saving/manifest.h"
#include "clients/c/saving/tar.h"
#include "clients/c/tree.h"
#include "proto/base/fdio.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool good)
{
    if (!good)
        abort();
}

/* The checksum's header, the checksum, and the end. */
static void seal(int fd, const uint8_t *data, size_t size)
{
    const Member member = {.name = ARCHIVE_CHECK,
                           .size = DIGEST_HEX_SIZE,
                           .extents = &(Extent){0, DIGEST_HEX_SIZE},
                           .n_extents = 1};
    uint8_t end[ARCHIVE_END - ARCHIVE_BLOCK] = {0};
    Digest digest = DIGEST_NULL;
    Buf header = BUF_NULL;

    require(digest_init(&digest) == 0 && digest_update(&digest, data, size) == 0 &&
            digest_finish(&digest, (char *)end) == 0);
    require(tar_append(&header, &member) == 0 && header.size == ARCHIVE_BLOCK);
    require(write_all(fd, buf_head(&header), header.size) == 0 && write_all(fd, end, sizeof(end)) == 0);
    buf_deinit(&header);
    digest_deinit(&digest);
}

/* Its data is where it says, and as long. */
static void read_data(ArchiveReader *archive)
{
    uint64_t reached = 0, stored = 0;
    ArchivePiece piece;
    int r;

    while ((r = archive_piece(archive, &piece)) > 0) {
        require(piece.size > 0 && piece.offset >= reached &&
                piece.size <= archive->member.size - piece.offset);
        reached = piece.offset + piece.size;
        stored += piece.size;
    }
    require(r == 0 && stored == member_stored(&archive->member));
}

static void read_members(ArchiveReader *archive)
{
    int r;

    while ((r = archive_next(archive)) > 0) {
        const Member *member = &archive->member;
        const char *path = archive_path(member);

        require(!path || (tree_is_plain(path) && strncmp(path, SAVING_OWN, strlen(SAVING_OWN)) != 0));
        require((member->kind == MEMBER_SYMLINK) == (member->target != NULL) && member->mode <= 07777);
        if (member->kind == MEMBER_FILE && member->size <= TREE_SMALL) {
            Buf whole = BUF_NULL;

            require(archive_whole(archive, &whole) == 0 && whole.size == member->size);
            buf_deinit(&whole);
        } else {
            read_data(archive);
        }
    }
    require(r == 0);
}

static void read_archive(int fd)
{
    Problem problem = PROBLEM_NULL;
    ArchiveReader archive;
    Manifest manifest = {0};
    NoteList notes = NOTE_LIST_NULL;
    uint64_t behind, bytes;
    MsgOptions given;
    int r = archive_reader_open(&archive, fd, "a.limpet", &problem);

    if (r == 0)
        r = manifest_read(&manifest, &archive);
    if (r == 0) {
        body_clear(&given, MsgOptions);
        require(manifest_note_not_granted(&manifest, &given, &notes) == 0 && notes.n <= 4);
        manifest_complete(&manifest, &given);
        require(!given.data.data && !given.network.data && !given.pip.data && !given.bindings.object);
        behind = archive.at + archive.skipped;
        r = archive_check(&archive, &bytes);
    }
    if (r == 0) {
        require(archive_seek(&archive, behind) == 0);
        read_members(&archive);
    }
    require(r == 0 || (r == -EPROTO && problem.code == ERR_RESTORE_FAILED && *problem.text));
    note_list_deinit(&notes);
    manifest_deinit(&manifest);
    archive_reader_deinit(&archive);
}

static void read_index(const uint8_t *data, size_t size)
{
    Problem problem = PROBLEM_NULL;
    SavedIndex index;
    int r = saved_index_read(&index, data, size, &problem);

    require(r == 0 || (r == -EPROTO && problem.code == ERR_PROTOCOL_MISMATCH));
    if (r == 0)
        saved_index_deinit(&index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("archive", MFD_CLOEXEC);

    require(fd >= 0 && write_all(fd, data, size) == 0);
    read_archive(fd);
    require(lseek(fd, 0, SEEK_END) == (off_t)size);
    seal(fd, data, size);
    read_archive(fd);
    close(fd);
    read_index(data, size);
    return 0;
}
