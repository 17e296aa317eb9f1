/* Finder: which files below a directory may have been created or changed since it was last asked.
 *
 * Normally inotify says so. Where it cannot (events lost, a directory moved, too many directories, no
 * instance left, files with several names, of which events name only one), everything is looked at, within
 * limits of time, depth and number. Either way the answer is the index's pending entries. */
#pragma once

#include "host/files/index.h"
#include "host/files/watch.h"

typedef struct FinderLimits {
    unsigned depth;     /* directories within each other */
    size_t directories; /* watched at once */
    size_t entries;     /* looked at in one scan, and known at once */
    size_t path_bytes;  /* of all known paths together */
    uint64_t scan_nsec; /* for one collection */
} FinderLimits;

typedef struct Finder {
    int root; /* handle on the directory, the caller's */
    const FinderLimits *limits;
    Index index;
    Watch watch;
    unsigned watches; /* watches so far, times without one counted too */
    bool scan;        /* the next collection looks at everything */
    bool unwatchable; /* more directories than can be watched */
    bool linked;      /* files with several names */
    bool incomplete;  /* the last collection did not see everything */
    size_t looked_at; /* entries, in this collection */
    uint64_t deadline;
} Finder;

void finder_init(Finder *finder, int root, const FinderLimits *limits);
void finder_deinit(Finder *finder);

/* Returns whether a collection would do anything; at most one system call. */
bool finder_pending(const Finder *finder);

/* Marks in the index what may have changed. */
void finder_collect(Finder *finder);
