#include "host/egress/seam.h"

#define SCHEMA_FILE "host/egress/seam.def"
#include "proto/schema/as_tables.h"
