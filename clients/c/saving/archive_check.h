/* Contents that an archive may have behind its manifest. */
#pragma once

#include "clients/c/saving/archive_reader.h"

/* Prefix of names in /session that are Limpet's own. */
#define SAVING_OWN ".limpet"

/* Returns the place of a member below /session; NULL: it is for the directory of the variables. */
const char *archive_path(const Member *member);

/* Reads all headers from where the archive is, before anything is restored: none leads out of /session, and
 * none through a link. *ret_bytes: of all files. 0, -ENOMEM, or -EPROTO with the problem. */
int archive_check(ArchiveReader *archive, uint64_t *ret_bytes);
