#include "host/net/seam.h"

#define SCHEMA_FILE "host/net/seam.def"
#include "proto/schema/as_tables.h"
