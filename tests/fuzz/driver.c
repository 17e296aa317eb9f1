/* Runs every file that is named, or that is in a directory that is named, through the fuzz target once. With
 * clang's -fsanitize=fuzzer the targets are linked without this file. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/base/buf.h"

#include <fcntl.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t files_run;

static int run_file(const char *path)
{
    int fd _cleanup_(closep) = open(path, O_RDONLY | O_CLOEXEC);
    Buf content = BUF_NULL;
    ssize_t n = fd < 0 ? -errno : 1;

    while (n > 0)
        n = buf_read_fd(&content, fd, 65536);
    if (n == 0) {
        /* A copy of just the right size, so that AddressSanitizer sees the end. */
        uint8_t *exact = malloc(content.size ? content.size : 1);
        if (exact && content.size)
            memcpy(exact, buf_head(&content), content.size);
        if (exact)
            LLVMFuzzerTestOneInput(exact, content.size);
        free(exact);
        files_run++;
    } else {
        fprintf(stderr, "%s: %s\n", path, strerror((int)-n));
    }
    buf_deinit(&content);
    return n == 0 ? 0 : -1;
}

static int run_directory(const char *path)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    int r = directory ? 0 : -1;

    if (!directory)
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
    while (directory && (entry = readdir(directory))) {
        char file[4096];

        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
        if (run_file(file) < 0)
            r = -1;
    }
    if (directory)
        closedir(directory);
    return r;
}

int main(int argc, char **argv)
{
    int r = 0;

    for (int i = 1; i < argc; i++) {
        struct stat status;

        if (stat(argv[i], &status) == 0 && S_ISDIR(status.st_mode))
            r |= run_directory(argv[i]);
        else
            r |= run_file(argv[i]);
    }
    printf("%zu inputs\n", files_run);
    return r == 0 && files_run > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
