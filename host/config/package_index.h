/* Sources of packages: the options package_index and package_certificates. */
#pragma once

#include "host/config/options.h"

/* Fills in what was not set: what pip on this host is configured with, or its own default. While files of the
 * host's users can be read. 0, or negative with the problem set. */
int package_index_settle(Options *options, Problem *problem);

/* The first of its URLs: of the index itself. */
typedef struct IndexUrl {
    const char *text;
    size_t size;
} IndexUrl;
IndexUrl package_index_url(const Options *options);

/* Returns the servers that an installer has to reach, as `host:port` with commas between; to be freed, or
 * NULL when out of memory. */
char *package_index_hosts(const Options *options);
