/* MIME types by file name extension. */
#pragma once

#include "proto/base/base.h"

/* A constant; "application/octet-stream" when the extension says nothing. */
const char *mime_type(const char *name);
