/* The store of installed packages, below the controller's state directory:
 *
 *   packages/HASH          a set of packages, named by what is in it, shared by all sessions that have it
 *   packages/HASH/base     what sessions get: the layout of a Python user base
 *   packages/HASH/lock     the versions and hashes of the packages, a requirements file
 *   packages/HASH/bytes    what the set takes, in digits
 *   packages/KEY.asked     a link to the set that answers a question
 *
 * Hashes and keys are 64 hexadecimal digits. A set never changes; its directory has the time of its last use.
 * Beginning with a dot: being made or removed. All of it is for worker
 * threads, several at once: who looks at a set that is there, or removes it, has a lock on the store. */
#pragma once

#include "host/files/sha256.h"
#include "proto/base/buf.h"
#include "proto/base/problem.h"

typedef struct PackageSet {
    char hash[SHA256_HEX_SIZE];
    Buf lock;
    uint64_t bytes;
} PackageSet;

static inline void package_set_deinit(PackageSet *set)
{
    buf_deinit(&set->lock);
}

/* Everything that packages are resolved from. */
typedef struct PackageQuestion {
    const char *before;  /* the set that is there already; "" for none */
    const char *request; /* all else that decides, hashed */
} PackageQuestion;

/* Returns whether the text can name a set, or be a request. */
bool package_name_valid(const char *name);

/* Keeps what an installer left in the directory `packages` of `files`, which is hostile, and that it answers
 * the question, as it does where it is there already. Links, and all that is neither file nor directory, are
 * left out; nobody may write to what is kept. At most `budget` bytes. `id` tells takes that go on at once
 * apart. 0, or negative with the problem set and nothing kept. */
int package_store_take(PackageSet *ret, const char *state_dir, int files, const char *id,
                       const PackageQuestion *question, uint64_t budget, Problem *problem);

/* The set that answers the question, where that was said no longer than max_age seconds ago. It counts as
 * used now. 0, -ENOENT, or negative with the problem set. */
int package_store_find(PackageSet *ret, const char *state_dir, const PackageQuestion *question,
                       double max_age, Problem *problem);

/* Removes the sets used longest ago until the others take at most `budget` bytes (0: any number), and what
 * takes that were cut off have left. Those that `in_use` says yes to stay, and those that were taken or found
 * after `before` (Unix seconds), which may be on their way to a session. Returns how many are gone. */
unsigned package_store_trim(const char *state_dir, uint64_t budget, double before,
                            bool (*in_use)(void *userdata, const char *hash), void *userdata);
