/* Stored form of a template: one StoredTemplate. */
#pragma once

#include "host/template/template.h"

/* 0 or a negative errno. */
int stored_encode(Buf *ret, const Template *tmpl);

/* Decodes a template that nobody can find yet. -EPROTO with the problem set when these bytes are none. */
int stored_decode(Template **ret, const void *bytes, size_t size, Problem *problem);
