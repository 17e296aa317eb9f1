/* The headers of one member, out of an archive that is being read. */
#pragma once

#include "clients/c/saving/archive_reader.h"

/* Bytes at archive->at, which moves behind them. 0, or -EPROTO with the problem: there are not as many. */
int archive_take(ArchiveReader *archive, void *to, size_t size);

/* archive->member, but for its extents, which are those of `archive`. 0, -ENOMEM, or -EPROTO with the
 * problem. */
int archive_take_member(ArchiveReader *archive);
