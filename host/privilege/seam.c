#include "host/privilege/seam.h"

#define SCHEMA_FILE "host/privilege/seam.def"
#include "proto/schema/as_tables.h"
