#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/beneath.h"
#include "host/files/remove.h"
#include "host/files/snapshot.h"
#include "host/files/transfer.h"
#include "host/files/treecopy.h"

#define STAGE     "restore.stage"
#define NEW       "restore.new"
#define IN        "restore.in"
#define OUT       "restore.out"
#define ARTIFACTS "artifacts" /* watched: it stays the same directory, its contents change */

/* Code that still runs may go on making names; it does not get to keep us here. */
#define PASSES 16

static int open_directory(int parent, const char *name)
{
    return parent < 0 ? parent : beneath_open(parent, name, O_RDONLY | O_DIRECTORY, 0);
}

static int make_directory(int parent, const char *name)
{
    if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
        return -errno;
    return open_directory(parent, name);
}

/* ---- the first step ---- */

int snapshot_stage(int store, const char *entry, int files, Problem *problem)
{
    _cleanup_(closep) int ours = open_directory(files, TRANSFER_DIRECTORY);
    _cleanup_(closep) int from = open_directory(store, entry);
    uint64_t bytes;
    int r;

    if (ours >= 0)
        remove_tree(ours, STAGE, NULL);
    _cleanup_(closep) int to = ours < 0 ? ours : make_directory(ours, STAGE);
    if (from < 0 || to < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot restore the files of the checkpoint: %s",
                           strerror(from < 0 ? -from : -to));
    r = treecopy(from, to, NULL, UINT64_MAX, &bytes, problem);
    if (r < 0)
        remove_tree(ours, STAGE, NULL);
    if (problem->code == ERR_TOO_LARGE)
        problem_set(
            problem, ERR_TOO_LARGE,
            "no room to restore the files of the checkpoint next to those in /session (options disk and "
            "files); remove some files first");
    return r;
}

void snapshot_unstage(int files)
{
    _cleanup_(closep) int ours = open_directory(files, TRANSFER_DIRECTORY);

    if (ours >= 0)
        remove_tree(ours, STAGE, NULL);
}

/* ---- the second ---- */

/* Moves a name from one directory to another. What has that name there is in the way: it is moved to `aside`,
 * or where there is no such place the name is changed. */
static int move(int from, const char *name, int to, int aside)
{
    char other[32];

    if (renameat2(from, name, to, name, RENAME_NOREPLACE) == 0 || errno == ENOENT)
        return 0;
    for (unsigned i = 0; errno == EEXIST && i < 1000; i++) {
        snprintf(other, sizeof(other), ".%u", i);
        if (aside < 0) {
            if (renameat2(from, name, to, other, RENAME_NOREPLACE) == 0)
                return 0;
        } else if (renameat2(to, name, aside, other, RENAME_NOREPLACE) == 0 || errno == ENOENT) {
            return move(from, name, to, -1);
        }
    }
    return -errno;
}

/* Passes once over what is in `from`; *ret_any says whether there was anything. */
static int move_pass(int from, int to, int aside, const char *const *skip, bool *ret_any)
{
    DIR *stream;
    int r = beneath_open_list(from, ".", &stream);

    *ret_any = false;
    if (r < 0)
        return r;
    for (struct dirent *entry; r == 0 && (entry = readdir(stream));) {
        const char *name = entry->d_name;

        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, skip[0]) == 0 ||
            strcmp(name, skip[1]) == 0)
            continue;
        *ret_any = true;
        r = move(from, name, to, aside);
    }
    closedir(stream);
    return r;
}

static int move_all(int from, int to, int aside, const char *const *skip)
{
    bool any = from >= 0 && to >= 0;
    int r = from < 0 ? from : MIN(to, 0);

    for (unsigned i = 0; r == 0 && any && i < PASSES; i++)
        r = move_pass(from, to, aside, skip, &any);
    return r;
}

/* All that is in one place, artifacts included, to another. */
static int move_contents(int from, int to, int aside)
{
    static const char *const top[] = {TRANSFER_DIRECTORY, ARTIFACTS}, *const none[] = {"", ""};
    _cleanup_(closep) int artifacts = open_directory(from, ARTIFACTS);
    int r = 0;

    if (artifacts >= 0) {
        _cleanup_(closep) int there = make_directory(to, ARTIFACTS);

        r = move_all(artifacts, there, aside, none);
    }
    return r < 0 ? r : move_all(from, to, aside, top);
}

/* Goes on from wherever it was left. */
static int finish(int files, int ours)
{
    _cleanup_(closep) int new = open_directory(ours, NEW);
    int r = 0;

    if (new >= 0) {
        _cleanup_(closep) int out = make_directory(ours, OUT);

        r = out < 0 ? out : move_contents(files, out, -1);
        if (r < 0) {
            move_contents(out, files, -1);
            renameat(ours, NEW, ours, STAGE);
        } else {
            remove_tree(ours, IN, NULL); /* left by an earlier one */
            r = renameat(ours, NEW, ours, IN) < 0 ? -errno : 0;
        }
    }
    _cleanup_(closep) int in = open_directory(ours, IN);
    if (r == 0 && in >= 0) {
        _cleanup_(closep) int out = make_directory(ours, OUT);

        r = move_contents(in, files, out);
        if (r == 0)
            remove_tree(ours, IN, NULL);
    }
    if (r == 0)
        remove_tree(ours, OUT, NULL);
    remove_tree(ours, STAGE, NULL);
    return r;
}

int snapshot_restore(int files, Problem *problem)
{
    _cleanup_(closep) int ours = open_directory(files, TRANSFER_DIRECTORY);
    int r = ours < 0 ? ours : 0;

    if (r == 0 && renameat2(ours, STAGE, ours, NEW, RENAME_NOREPLACE) < 0)
        r = -errno;
    if (r == 0)
        r = finish(files, ours);
    if (r < 0)
        problem_set(problem, ERR_INTERNAL, "%s", strerror(-r));
    return r;
}

void snapshot_recover(int files)
{
    _cleanup_(closep) int ours = open_directory(files, TRANSFER_DIRECTORY);

    if (ours >= 0)
        finish(files, ours);
}
