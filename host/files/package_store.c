#include "host/files/package_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "host/files/beneath.h"
#include "host/files/tree.h"
#include "proto/base/clock.h"
#include "proto/limits.h"

/* ---- sealing: a directory that is not to change any more ---- */

#define CHUNK   (64u << 10)
#define READERS 0444
#define RUNNERS 0111

typedef struct Seal {
    Sha256 sha;
    uint8_t chunk[CHUNK];
} Seal;

static int seal_contents(Seal *seal, int directory);

/* Adds one line for each entry, which no other tree gives: a name has no '\0'. */
static int hash_entry(Seal *seal, char type, const char *name, uint64_t size)
{
    char head[32];
    int n = snprintf(head, sizeof(head), "%c %llu ", type, (unsigned long long)size);
    int r = sha256_update(&seal->sha, head, (size_t)n);

    return r < 0 ? r : sha256_update(&seal->sha, name, strlen(name) + 1);
}

static int close_to_writers(int fd, mode_t mode)
{
    if (fchown(fd, geteuid(), getegid()) < 0 && errno != EPERM)
        return -errno;
    return fchmod(fd, mode) < 0 ? -errno : 0;
}

static int seal_file(Seal *seal, int directory, const char *name, const struct stat *st)
{
    bool runs = st->st_mode & S_IXUSR;
    int fd _cleanup_(closep) = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int r = fd < 0 ? -errno : hash_entry(seal, runs ? 'x' : 'f', name, (uint64_t)st->st_size);
    ssize_t n = 0;

    while (r == 0 && (n = read(fd, seal->chunk, CHUNK)) > 0)
        r = sha256_update(&seal->sha, seal->chunk, (size_t)n);
    if (r == 0 && n < 0)
        r = -errno;
    return r < 0 ? r : close_to_writers(fd, READERS | (runs ? RUNNERS : 0));
}

static int seal_directory(Seal *seal, int directory, const char *name)
{
    int fd _cleanup_(closep) = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = fd < 0 ? -errno : hash_entry(seal, 'd', name, 0);

    if (r == 0)
        r = seal_contents(seal, fd);
    if (r == 0)
        r = hash_entry(seal, 'e', "", 0);
    return r < 0 ? r : close_to_writers(fd, READERS | RUNNERS);
}

static int seal_entry(Seal *seal, int directory, const char *name)
{
    struct stat st;

    if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode))
        return seal_directory(seal, directory, name);
    if (S_ISREG(st.st_mode))
        return seal_file(seal, directory, name, &st);
    return unlinkat(directory, name, 0) < 0 ? -errno : 0;
}

static int is_shown(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int seal_contents(Seal *seal, int directory)
{
    char path[FD_PATH_SIZE];
    struct dirent **entries;
    int n = scandir(fd_path(path, directory), &entries, is_shown, by_bytes), r = n < 0 ? -errno : 0;

    for (int i = 0; i < n; i++) {
        if (r == 0)
            r = seal_entry(seal, directory, entries[i]->d_name);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    return r;
}

/* Goes through all below `directory`, which nobody else writes to: removes what is neither file nor
 * directory, takes the right to write from everybody, gives it to whoever runs us, and hashes names, contents
 * and whether a file may be executed. 0, or negative with the problem set. */
static int package_seal(int directory, char ret_hash[SHA256_HEX_SIZE], Problem *problem)
{
    Seal *seal _cleanup_(freep) = calloc(1, sizeof(*seal));
    uint8_t digest[SHA256_SIZE];
    int r = seal ? sha256_start(&seal->sha) : -ENOMEM;

    if (r == 0)
        r = seal_contents(seal, directory);
    if (r == 0)
        r = sha256_finish(&seal->sha, digest);
    if (seal)
        sha256_deinit(&seal->sha);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "installed packages cannot be kept: %s", strerror(-r));
    hex_encode(ret_hash, digest, SHA256_SIZE);
    return 0;
}

/* ---- the store ---- */

#define STORE      "packages"
#define SUFFIX     ".asked"
#define KEY_SIZE   (SHA256_HEX_SIZE + sizeof(SUFFIX))
#define CUT_OFF    3600.0 /* seconds after which nobody is making it any more */
#define BYTES_SIZE 24

bool package_name_valid(const char *name)
{
    return strlen(name) == 2 * SHA256_SIZE && strspn(name, "0123456789abcdef") == 2 * SHA256_SIZE;
}

static int failed(Problem *problem, const char *what, int error)
{
    return problem_set(problem, ERR_INTERNAL, "%s: %s", what, strerror(-error));
}

/* Nobody but us gets past it; containers are given what is in it. */
static int open_store(const char *state_dir)
{
    int state _cleanup_(closep) = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int store;

    if (state < 0 || (mkdirat(state, STORE, 0700) < 0 && errno != EEXIST))
        return -errno;
    store = openat(state, STORE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return store < 0 ? -errno : store;
}

/* Until the store is closed. */
static int lock_store(int store)
{
    return flock(store, LOCK_EX) < 0 ? -errno : 0;
}

/* The name of the link for a question. */
static int key_name(char ret[KEY_SIZE], const PackageQuestion *question)
{
    Sha256 sha _cleanup_(sha256_deinit) = SHA256_NULL;
    uint8_t digest[SHA256_SIZE];
    char key[SHA256_HEX_SIZE];
    int r = sha256_start(&sha);

    if (r == 0)
        r = sha256_update(&sha, question->before, strlen(question->before) + 1);
    if (r == 0)
        r = sha256_update(&sha, question->request, strlen(question->request));
    if (r == 0)
        r = sha256_finish(&sha, digest);
    if (r < 0)
        return r;
    hex_encode(key, digest, SHA256_SIZE);
    snprintf(ret, KEY_SIZE, "%s" SUFFIX, key);
    return 0;
}

/* ---- what is known of a set ---- */

static int write_file(int directory, const char *name, const char *text)
{
    int fd _cleanup_(closep) = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    size_t size = strlen(text);

    if (fd < 0)
        return -errno;
    return write(fd, text, size) == (ssize_t)size ? 0 : -EIO;
}

static int read_file(Buf *ret, int directory, const char *name, size_t limit)
{
    struct stat st;
    int fd _cleanup_(closep) = beneath_open_regular(directory, name, &st);
    ssize_t n;

    if (fd < 0)
        return fd;
    ret->limit = limit;
    do
        n = buf_read_fd(ret, fd, limit);
    while (n > 0);
    return n < 0 ? (int)n : 0;
}

static uint64_t read_bytes(int set)
{
    Buf text _cleanup_(buf_deinit) = BUF_NULL;
    char digits[BYTES_SIZE];

    if (read_file(&text, set, "bytes", BYTES_SIZE) < 0)
        return 0;
    snprintf(digits, sizeof(digits), "%.*s", (int)text.size, (const char *)buf_head(&text));
    return strtoull(digits, NULL, 10);
}

static int describe(PackageSet *ret, int set)
{
    int r = read_file(&ret->lock, set, "lock", LIMIT_LOCK);

    ret->bytes = read_bytes(set);
    return r == -ENOENT ? 0 : r;
}

/* ---- taking ---- */

/* Replaces what treecopy says of running out of room: its words are about /session. */
static int copy(int from, int to, uint64_t budget, uint64_t *ret_bytes, Problem *problem)
{
    Problem why = PROBLEM_NULL;
    int r = treecopy(from, to, NULL, budget, ret_bytes, &why);

    if (r < 0 && why.code == ERR_TOO_LARGE)
        return problem_set(problem, ERR_TOO_LARGE,
                           "the packages take more than %" PRIu64
                           " bytes (option packages_disk), or there is no "
                           "room left for them",
                           budget);
    if (r < 0)
        *problem = why;
    return r;
}

static int fill(int new, int files, uint64_t budget, PackageSet *ret, Problem *problem)
{
    int from _cleanup_(closep) = beneath_open(files, STORE, O_RDONLY | O_DIRECTORY, 0);
    char text[BYTES_SIZE];
    struct stat base;
    int r;

    if (from < 0)
        return failed(problem, "the installer left no packages", from);
    r = copy(from, new, budget, &ret->bytes, problem);
    if (r < 0 || (r = package_seal(new, ret->hash, problem)) < 0)
        return r;
    if (fstatat(new, "base", &base, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(base.st_mode))
        return failed(problem, "the installer left no packages", -ENOENT);
    if (unlinkat(new, "bytes", 0) < 0 && errno != ENOENT)
        return failed(problem, "the installer left what is no file", -errno);
    snprintf(text, sizeof(text), "%" PRIu64, ret->bytes);
    r = write_file(new, "bytes", text);
    if (r == 0)
        r = read_file(&ret->lock, new, "lock", LIMIT_LOCK);
    return r < 0 ? failed(problem, "the installer left no lock", r) : 0;
}

static int remember_one(int store, const char *id, const PackageQuestion *question, const char *hash)
{
    char name[KEY_SIZE], new[NAME_MAX];
    int r = key_name(name, question);

    if (r < 0)
        return r;
    snprintf(new, sizeof(new), ".%s" SUFFIX, id);
    unlinkat(store, new, 0);
    if (symlinkat(hash, store, new) < 0 || renameat(store, new, store, name) < 0)
        return -errno;
    return 0;
}

/* Remembers the answer to the question, and to the same request upon the set that it led to. */
static int remember(int store, const char *id, const PackageQuestion *question, const char *hash)
{
    const PackageQuestion again = {hash, question->request};
    int r = remember_one(store, id, question, hash);

    return r < 0 ? r : remember_one(store, id, &again, hash);
}

/* The same may have been there for long, or have come meanwhile. */
static int settle(int store, const char *new, const char *hash)
{
    if (renameat(store, new, store, hash) == 0)
        return 0;
    if (errno != EEXIST && errno != ENOTEMPTY)
        return -errno;
    utimensat(store, hash, NULL, AT_SYMLINK_NOFOLLOW);
    return remove_tree(store, new, NULL);
}

static int make(int store, const char *new, int *ret)
{
    remove_tree(store, new, NULL);
    if (mkdirat(store, new, 0700) < 0)
        return -errno;
    *ret = openat(store, new, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *ret < 0 ? -errno : 0;
}

int package_store_take(PackageSet *ret, const char *state_dir, int files, const char *id,
                       const PackageQuestion *question, uint64_t budget, Problem *problem)
{
    int store _cleanup_(closep) = open_store(state_dir);
    int directory _cleanup_(closep) = -1;
    char new[NAME_MAX];
    int r;

    snprintf(new, sizeof(new), ".%s", id);
    r = store < 0 ? store : make(store, new, &directory);
    if (r < 0)
        return failed(problem, "packages cannot be kept", r);
    r = fill(directory, files, budget, ret, problem);
    if (r == 0 &&
        (fchmod(directory, 0755) < 0 || (r = lock_store(store)) < 0 ||
         (r = settle(store, new, ret->hash)) < 0 || (r = remember(store, id, question, ret->hash)) < 0))
        r = failed(problem, "packages cannot be kept", r < 0 ? r : -errno);
    if (r < 0) {
        remove_tree(store, new, NULL);
        package_set_deinit(ret);
    }
    return r;
}

/* ---- finding ---- */

static bool is_recent(struct timespec time, double seconds)
{
    return clock_unix() - clock_seconds(time) <= seconds;
}

static int find(PackageSet *ret, int store, const PackageQuestion *question, double max_age)
{
    char name[KEY_SIZE];
    struct stat st;
    ssize_t n;
    int set _cleanup_(closep) = -1;

    if (key_name(name, question) < 0 || fstatat(store, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    n = readlinkat(store, name, ret->hash, sizeof(ret->hash) - 1);
    if (n < 0 || !is_recent(st.st_mtim, max_age))
        return -ENOENT;
    ret->hash[n] = '\0';
    set = package_name_valid(ret->hash) ? beneath_open(store, ret->hash, O_RDONLY | O_DIRECTORY, 0) : -ENOENT;
    if (set < 0)
        return set;
    futimens(set, NULL);
    return describe(ret, set);
}

int package_store_find(PackageSet *ret, const char *state_dir, const PackageQuestion *question,
                       double max_age, Problem *problem)
{
    int store _cleanup_(closep) = open_store(state_dir);
    int r = store < 0 ? store : lock_store(store);

    if (r == 0)
        r = find(ret, store, question, max_age);
    if (r < 0)
        package_set_deinit(ret);
    return r == 0 || r == -ENOENT ? r : failed(problem, "stored packages cannot be read", r);
}

/* ---- trimming ---- */

typedef struct StoredSet {
    char hash[SHA256_HEX_SIZE];
    uint64_t bytes;
    struct timespec used;
} StoredSet;

typedef struct StoredSets {
    StoredSet *sets;
    size_t n, capacity;
} StoredSets;

static void note_set(StoredSets *all, int store, const char *hash, const struct stat *st)
{
    int set _cleanup_(closep) = beneath_open(store, hash, O_RDONLY | O_DIRECTORY, 0);
    StoredSet *sets = all->sets;

    if (set < 0)
        return;
    if (all->n == all->capacity) {
        sets = realloc(sets, (all->capacity + 64) * sizeof(*sets));
        if (!sets)
            return;
        all->sets = sets;
        all->capacity += 64;
    }
    sets[all->n] = (StoredSet){.bytes = read_bytes(set), .used = st->st_mtim};
    memcpy(sets[all->n++].hash, hash, SHA256_HEX_SIZE);
}

/* Removes what has been in the making for so long that nobody makes it any more, and links whose set is gone;
 * notes a set. */
static void look_at(StoredSets *all, int store, const char *name)
{
    struct stat st, set;

    if (fstatat(store, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (package_name_valid(name))
        note_set(all, store, name, &st);
    else if (*name == '.' ? !is_recent(st.st_mtim, CUT_OFF)
                          : S_ISLNK(st.st_mode) && fstatat(store, name, &set, 0) < 0)
        remove_tree(store, name, NULL);
}

static int by_use(const void *a, const void *b)
{
    const struct timespec *one = &((const StoredSet *)a)->used, *other = &((const StoredSet *)b)->used;

    if (one->tv_sec != other->tv_sec)
        return one->tv_sec < other->tv_sec ? -1 : 1;
    return (one->tv_nsec > other->tv_nsec) - (one->tv_nsec < other->tv_nsec);
}

/* Nobody finds it any more before it is taken apart. It may have been used since it was listed. */
static bool hide_set(int store, const char *hash, double before, const char *gone)
{
    struct stat st;
    bool hidden = lock_store(store) == 0 && fstatat(store, hash, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                  clock_seconds(st.st_mtim) < before && renameat(store, hash, store, gone) == 0;

    flock(store, LOCK_UN);
    return hidden;
}

static bool remove_set(int store, const char *hash, double before)
{
    char gone[NAME_MAX];

    snprintf(gone, sizeof(gone), ".gone-%s", hash);
    return hide_set(store, hash, before, gone) && remove_tree(store, gone, NULL) == 0;
}

unsigned package_store_trim(const char *state_dir, uint64_t budget, double before,
                            bool (*in_use)(void *userdata, const char *hash), void *userdata)
{
    int store _cleanup_(closep) = open_store(state_dir);
    StoredSets all = {0};
    uint64_t bytes = 0;
    unsigned removed = 0;
    DIR *entries;

    if (store < 0 || beneath_open_list(store, ".", &entries) < 0)
        return 0;
    for (struct dirent *entry; (entry = readdir(entries));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            look_at(&all, store, entry->d_name);
    closedir(entries);
    for (size_t i = 0; i < all.n; i++)
        bytes += all.sets[i].bytes;
    if (all.n > 0)
        qsort(all.sets, all.n, sizeof(*all.sets), by_use);
    for (size_t i = 0; i < all.n && budget && bytes > budget; i++)
        if (!in_use(userdata, all.sets[i].hash) && remove_set(store, all.sets[i].hash, before)) {
            bytes -= all.sets[i].bytes;
            removed++;
        }
    free(all.sets);
    return removed;
}
