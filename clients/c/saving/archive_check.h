/* What may be in an archive behind its manifest. */
#pragma once

#include "clients/c/saving/archive_reader.h"

/* What begins so in /session is Limpet's own. */
#define SAVING_OWN ".limpet"

/* Where a member will be, below /session; NULL: it is for the directory of the variables. */
const char *archive_path(const Member *member);

/* Reads all headers from where the archive is, before anything is restored: none leads out of /session, and
 * none through a link. *ret_bytes: of all files. 0, -ENOMEM, or -EPROTO with the problem. */
int archive_check(ArchiveReader *archive, uint64_t *ret_bytes);
