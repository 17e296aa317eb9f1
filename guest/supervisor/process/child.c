#include "guest/supervisor/process/child.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static int capabilities_clear(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

    /* setresuid clears nothing when the supervisor is not uid 0 and holds ambient capabilities. */
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return -errno;
    if (syscall(SYS_capset, &header, none) < 0)
        return -errno;
    return 0;
}

static int capabilities_verify(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct held[_LINUX_CAPABILITY_U32S_3];

    if (syscall(SYS_capget, &header, held) < 0)
        return -errno;
    for (size_t i = 0; i < ARRAY_SIZE(held); i++)
        if (held[i].effective | held[i].permitted | held[i].inheritable)
            return -EPERM;
    return 0;
}

static int ids_verify(uid_t uid, gid_t gid, gid_t mark)
{
    uid_t users[3];
    gid_t groups[3], more[2];

    if (getresuid(&users[0], &users[1], &users[2]) < 0 || getresgid(&groups[0], &groups[1], &groups[2]) < 0)
        return -errno;
    for (size_t i = 0; i < 3; i++)
        if (users[i] != uid || groups[i] != gid)
            return -EPERM;
    int n = getgroups(ARRAY_SIZE(more), more);
    return n == (mark ? 1 : 0) && (n == 0 || more[0] == mark) ? 0 : -EPERM;
}

int child_drop_powers(uid_t uid, gid_t gid, gid_t mark)
{
    int r;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    if (setgroups(mark ? 1 : 0, &mark) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return -errno;
    r = capabilities_clear();
    if (r == 0)
        r = ids_verify(uid, gid, mark);
    if (r == 0)
        r = capabilities_verify();
    return r;
}

void child_unblock_signals(void)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}
