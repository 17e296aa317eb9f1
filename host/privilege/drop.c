#include "host/privilege/drop.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "proto/limits.h"

/* 0: it is none of those. */
static uid_t standard_uid(const char *name)
{
    if (strcmp(name, STANDARD_ACCOUNT) == 0)
        return STANDARD_UID;
    if (strcmp(name, NET_ACCOUNT) == 0)
        return NET_UID;
    return strcmp(name, EGRESS_ACCOUNT) == 0 ? EGRESS_UID : 0;
}

int account_find(const char *name, Account *ret, Problem *problem)
{
    char space[16384];
    struct passwd entry, *found = NULL;
    uid_t standard = standard_uid(name);

    getpwnam_r(name, &entry, space, sizeof(space), &found);
    if (!found && standard == 0)
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "there is no user '%s' (options user, egress_user and listen_user); useradd --system makes one",
            name);
    *ret = found ? (Account){found->pw_uid, found->pw_gid} : (Account){standard, standard};
    if (ret->uid == 0 || ret->uid == GUEST_UID)
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "a process of limpetd cannot run as '%s' (options user, egress_user and listen_user): it has "
            "an account of its own, and "
            "neither root's nor that of sandboxed code",
            name);
    return 0;
}

static int change_account(const Account *account)
{
    if (setgroups(0, NULL) < 0 || setresgid(account->gid, account->gid, account->gid) < 0 ||
        setresuid(account->uid, account->uid, account->uid) < 0)
        return -errno;
    return 0;
}

/* Empties the bounding set: a capability that is not in there cannot come back by executing anything
 * either. */
static int drop_bounding_set(void)
{
    for (unsigned long capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
        if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0)
            return -errno;
    return 0;
}

static int keep_capabilities(uint64_t capabilities)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2] = {
        {.effective = (uint32_t)capabilities, .permitted = (uint32_t)capabilities},
        {.effective = (uint32_t)(capabilities >> 32), .permitted = (uint32_t)(capabilities >> 32)},
    };

    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
        syscall(SYS_capset, &header, sets) < 0)
        return -errno;
    return 0;
}

/* A change of user takes back that it dies with its parent. */
static int seal(pid_t parent)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return -errno;
    return getppid() == parent ? 0 : -ESRCH;
}

static int drop_powers(const Remnant *rights)
{
    int r = prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 ? -errno : drop_bounding_set();

    if (r == 0)
        r = change_account(&rights->account);
    return r == 0 ? keep_capabilities(rights->capabilities) : r;
}

int rights_drop(const Remnant *rights, pid_t parent, Problem *problem)
{
    int r = rights->keeps_account ? 0 : drop_powers(rights);

    if (r == 0)
        r = seal(parent);
    if (r == 0)
        r = landlock_confine(rights);
    if (r == 0 || r == -EOPNOTSUPP)
        r = filter_install(rights->dials);
    return r < 0 ? problem_set(problem, ERR_INTERNAL, "root's rights cannot be given up: %s", strerror(-r))
                 : 0;
}
