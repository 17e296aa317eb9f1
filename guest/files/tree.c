/* mkdir and move. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "guest/files/files.h"

int files_mkdir(Files *files, uint64_t id, const MsgFileMkdir *ask)
{
    struct stat st;
    Path path;
    int r = path_take(path, ask->path);

    if (r == 0 && ask->parents)
        r = path_make(path);
    else if (r == 0 && mkdir(path, 0755) < 0)
        r = -errno;
    if (r == 0 && ask->parents && (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)))
        r = -EEXIST;
    return r < 0 ? r : files_reply_empty(files, id);
}

int files_move(Files *files, uint64_t id, const MsgFileMove *ask)
{
    Path old, new, shown;
    int r = path_take(old, ask->old);

    if (r == 0)
        r = path_take(new, ask->new);
    if (r < 0)
        return r;
    if (rename(old, new) == 0)
        return files_reply_empty(files, id);
    r = -errno;
    /* The old one is there: it is about the new one. */
    if (faccessat(AT_FDCWD, old, F_OK, AT_SYMLINK_NOFOLLOW) == 0 && path_show(shown, ask->new) == 0)
        files_blame(files, shown, r);
    return r;
}
