/* The headers of one member, out of an archive that is being read. */
#pragma once

#include "clients/c/saving/archive_source.h"

/* archive->member, but for its extents, which are those of `archive`. 0, -ENOMEM, or -EPROTO with the
 * problem. */
int archive_take_member(ArchiveReader *archive);
