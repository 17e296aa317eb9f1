#include "host/net/protocol.h"

#define SCHEMA_FILE "host/net/protocol.def"
#include "proto/schema/as_tables.h"
