/* Memory of the host. */
#pragma once

#include <stdint.h>

/* Bytes that programs can have without swapping, as the kernel estimates; UINT64_MAX when it does not say. */
uint64_t memory_available(void);
