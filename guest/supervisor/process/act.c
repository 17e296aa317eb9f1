#include "guest/supervisor/process/act.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

int act_as(uid_t uid)
{
    if (uid == geteuid())
        return 0;
    if (setresgid((gid_t)-1, uid, (gid_t)-1) < 0 || setresuid((uid_t)-1, uid, (uid_t)-1) < 0)
        return -errno;
    return 0;
}

void act_as_self(void)
{
    if (setresuid((uid_t)-1, getuid(), (uid_t)-1) < 0 || setresgid((gid_t)-1, getgid(), (gid_t)-1) < 0)
        abort(); /* a process may always go back to its real ids */
    /* A change of ids may undo it. */
    prctl(PR_SET_DUMPABLE, 0);
}
