/* Shared by copies of directories, put_tree.c and get_tree.c. */
#pragma once

#include "clients/c/client.h"

/* Largest file that goes with others in one message. Larger ones go in pieces, each for itself. */
#define TREE_SMALL (256u << 10)

/* The whole size is known before anything is copied. */
typedef struct TreeProgress {
    uint64_t done, whole; /* bytes */
    LimpetOnProgress *tell;
    void *context;
} TreeProgress;

void tree_progress(TreeProgress *progress, uint64_t size);

/* Returns whether a directory is copied at `path`, relative to the one that all is copied of. */
typedef bool TreeIsDirectory(const void *context, const char *path);

/* Returns whether a link at `path`, relative to the directory that is copied, may lead to what is not below
 * that one. It may go back, by "..", over directories that are copied, and over nothing else: another link
 * would lead elsewhere, and be it one that a later copy brings. */
bool tree_leads_out(const char *path, const char *target, TreeIsDirectory *is_directory, const void *context);

/* Returns whether the path leads nowhere but below a directory: no part of it is empty, "." or "..". */
bool tree_is_plain(const char *path);

/* Entries that may not be copied: links that lead out, and what is neither file, directory nor link. */
typedef struct TreeRefused {
    Buf names; /* the first of them, for a message */
    size_t n;
} TreeRefused;

int tree_refuse(TreeRefused *refused, const char *path);

/* 0 where there is none; frees the names. */
int tree_refused_end(TreeRefused *refused, const char *top, Problem *problem);

/* "top/below", to be freed. NULL when out of memory. */
char *tree_path(const char *top, const char *below);
