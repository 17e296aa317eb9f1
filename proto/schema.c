#include "proto/schema.h"

#define SCHEMA_FILE "proto/schema/all.def"
#include "proto/schema/as_tables.h"
