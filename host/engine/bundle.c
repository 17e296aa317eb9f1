#include "host/engine/bundle.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "host/engine/capture.h"
#include "proto/base/fdio.h"

int bundle_write(const char *bundle, const char *config)
{
    int directory _cleanup_(closep) = -1, file _cleanup_(closep) = -1;
    int r;

    if (mkdir(bundle, 0700) < 0)
        return -errno;
    directory = open(bundle, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    file = openat(directory, "config.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    r = file < 0 ? -errno : write_all(file, config, strlen(config));
    if (r < 0)
        bundle_remove(bundle);
    return r;
}

void bundle_remove(const char *bundle)
{
    DIR *directory = opendir(bundle);
    struct dirent *entry;

    if (!directory)
        return;
    while ((entry = readdir(directory)))
        unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
    rmdir(bundle);
}

int bundle_read_pid(const char *path, pid_t *ret)
{
    char *text _cleanup_(freep) = NULL;
    int r = capture_file(path, 32, &text);
    long pid = r == 0 ? strtol(text, NULL, 10) : 0;

    if (pid <= 1 || pid > INT32_MAX)
        return r < 0 ? r : -EBADMSG;
    *ret = (pid_t)pid;
    return 0;
}
