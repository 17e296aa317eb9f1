/* A local directory that a tree of the sandbox is merged into. The sandbox has chosen all names: each part of
 * a path is opened as it is, and no link is followed, whoever made it. */
#pragma once

#include <sys/types.h>

typedef struct Landing {
    int top_fd;
    int above_fd; /* the directory of the last path, which is mostly that of the next; -1: none */
    char *above;  /* its path */
} Landing;

#define LANDING_NULL ((Landing){.top_fd = -1, .above_fd = -1})

/* Makes the directory where it is missing. All of these: 0 or a negative errno. */
int landing_init(Landing *landing, const char *top);
void landing_deinit(Landing *landing);

int landing_directory(Landing *landing, const char *path);
int landing_symlink(Landing *landing, const char *path, const char *target);

/* A new file, to be written through *ret_fd. */
typedef struct LandingFile {
    int fd, above_fd;
    const char *name;
    char temporary[32];
} LandingFile;

int landing_file(Landing *landing, const char *path, unsigned mode, LandingFile *ret);

/* Puts the file in its place as a whole, or, where `error` is not 0, removes it and returns that. */
int landing_file_end(LandingFile *file, int error);
