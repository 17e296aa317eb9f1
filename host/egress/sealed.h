/* Rules that are sealed: whoever holds the key of a limpet-egress has written them for it, and whoever
 * carries them cannot read or change them. They are base64 of a tag and of the rules, an EgressSealed of
 * host/egress/protocol.def, as AES-256-SIV (RFC 5297) makes them of SHA-512 of the key. The same rules are
 * always the same text.
 *
 * A connection that they are for begins with them, behind their size in four bytes, the most significant
 * first. */
#pragma once

#include "proto/base/buf.h"
#include "proto/wire.h"

#define SEALED_TAG  16u
#define SEALED_MOST LIMIT_BINDING_HEADER

/* Appends what a connection begins with. 0, -EMSGSIZE or -ENOMEM. */
int sealed_append(Buf *buf, Text sealed);

/* Opens a sealed text: `ret` gets the rules. 0, -EBADMSG where another key has sealed it, or -ENOMEM. */
int sealed_open(Buf *ret, uint8_t ret_tag[static SEALED_TAG], Text key, Text sealed);
