#include "host/files/package_seal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/beneath.h"

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

int package_seal(int directory, char ret_hash[SHA256_HEX_SIZE], Problem *problem)
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
