/* Headers of a tar as GNU has them. No library writes files with holes in this form. */
#pragma once

#include "clients/c/saving/archive.h"
#include "proto/base/buf.h"

#define TAR_FILE        '0'
#define TAR_FILE_OLD    '\0'
#define TAR_SYMLINK     '2'
#define TAR_DIRECTORY   '5'
#define TAR_LONG_NAME   'L'
#define TAR_LONG_TARGET 'K'
#define TAR_SPARSE      'S'

#define TAR_PARTS_HERE 4u  /* of a file with holes, in its header */
#define TAR_PARTS_MORE 21u /* in a block behind that */

/* All blocks of a member's header. 0 or -ENOMEM. */
int tar_append(Buf *buf, const Member *member);

typedef struct TarHeader {
    char type;
    char name[101], target[101];
    unsigned mode;
    uint64_t size; /* bytes that follow */
    uint64_t modified;
} TarHeader;

/* 0, or -EBADMSG: it is none, or not in the form in which tar_append() and Python's tarfile have it. */
int tar_parse(TarHeader *ret, const uint8_t block[static ARCHIVE_BLOCK]);

/* Reads the size of the whole file from a header whose type is TAR_SPARSE. */
int tar_parse_size(uint64_t *ret, const uint8_t block[static ARCHIVE_BLOCK]);

/* The parts of a file that the header, or with `more` a block behind it, has: how many there are in `ret`,
 * which has room for TAR_PARTS_MORE, or -EBADMSG. *ret_more: another block follows. */
int tar_parse_parts(Extent *ret, const uint8_t block[static ARCHIVE_BLOCK], bool more, bool *ret_more);
