#include "host/privilege/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "proto/limits.h"

/* Account that runs the controller where no other is made for it. No person or service may have it. */
#define STANDARD_ACCOUNT "limpet"
#define STANDARD_UID     20002u

/* Likewise of the process through which sandboxes reach the network. */
#define EGRESS_ACCOUNT "limpet-egress"
#define EGRESS_UID     20003u

/* Likewise of the process that clients on other machines talk to. */
#define NET_ACCOUNT "limpet-net"
#define NET_UID     20004u

/* ---- system calls ----
 *
 * Most are let through: they reach no more than uid, capabilities and landlock leave. Those that make other
 * processes, change the process's view of the machine, reach into other processes, or have the kernel do
 * unusual work are refused. */

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define ARCHITECTURE AUDIT_ARCH_RISCV64
#elif defined(__powerpc64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ARCHITECTURE AUDIT_ARCH_PPC64LE
#elif defined(__s390x__)
#define ARCHITECTURE AUDIT_ARCH_S390X
#endif

#define LOAD(member)  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)
#define REFUSE(error) RETURN(SECCOMP_RET_ERRNO | (error))
/* The next instruction, or the one that many further. */
#define IF(value, otherwise)       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, otherwise)
#define IF_NOT(value, otherwise)   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, otherwise, 0)
#define IF_SET(bits, otherwise)    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, otherwise)
#define IF_LEAST(value, otherwise) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, value, 0, otherwise)
/* Low halves of arguments; on a machine with its bytes the other way round the second of the two. */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define ARGUMENT(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[n]) + 4)
#else
#define ARGUMENT(n) LOAD(args[n])
#endif

/* The flags of clone(). */
#ifdef __s390x__
#define CLONE_FLAGS ARGUMENT(1)
#else
#define CLONE_FLAGS ARGUMENT(0)
#endif

#define NEVER(call) IF(__NR_##call, 1), REFUSE(EPERM)

#define TYPE_MASK 0xfu /* SOCK_CLOEXEC and its like are above */

#define NAMESPACES                                                                                           \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |            \
     CLONE_NEWNET)

#ifdef ARCHITECTURE
/* Filter of a process that listens and is connected to. */
static const struct sock_filter serving[] = {
#include "host/privilege/refused.def"
    NEVER(connect),
    IF(__NR_socket, 6),
    ARGUMENT(0),
    IF_NOT(AF_UNIX, 1),
    REFUSE(EAFNOSUPPORT),
    ARGUMENT(1),
    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, TYPE_MASK),
    BPF_STMT(BPF_JMP | BPF_JA, 5),
    IF(__NR_socketpair, 8),
    ARGUMENT(0),
    IF_NOT(AF_UNIX, 1),
    REFUSE(EAFNOSUPPORT),
    ARGUMENT(1),
    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, TYPE_MASK),
    /* Datagrams can be sent to any address, and SOCK_RAW makes them, too. */
    IF_NOT(SOCK_STREAM, 2),
    IF_NOT(SOCK_SEQPACKET, 1),
    REFUSE(EPERM),
    RETURN(SECCOMP_RET_ALLOW),
};

/* Filter of a process that connects to others, and asks for their addresses. */
static const struct sock_filter dialling[] = {
#include "host/privilege/refused.def"
    IF(__NR_socket, 6),  ARGUMENT(0),           IF_NOT(AF_UNIX, 4),   IF_NOT(AF_INET, 3),
    IF_NOT(AF_INET6, 2), IF_NOT(AF_NETLINK, 1), REFUSE(EAFNOSUPPORT), RETURN(SECCOMP_RET_ALLOW),
};

int filter_install(bool dials)
{
    struct sock_fprog filter = {
        .len = dials ? ARRAY_SIZE(dialling) : ARRAY_SIZE(serving),
        .filter = (struct sock_filter *)(dials ? dialling : serving),
    };

    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0 ? -errno : 0;
}
#else
int filter_install(bool dials)
{
    return 0; /* a machine whose calls are not known here */
}
#endif

/* ---- files ---- */

/* Newer than the headers of some. */
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif
#ifndef LANDLOCK_ACCESS_FS_IOCTL_DEV
#define LANDLOCK_ACCESS_FS_IOCTL_DEV (1ULL << 15)
#endif

#define READING (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define ALL     ((LANDLOCK_ACCESS_FS_IOCTL_DEV << 1) - 1)
/* Neither programs nor devices. */
#define WRITING                                                                                              \
    (ALL & ~(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK |     \
             LANDLOCK_ACCESS_FS_IOCTL_DEV))
/* Rights that are of use with a file that is no directory. */
#define OF_FILES (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE)

/* Between directories nothing can be moved before the second version, which is too little here. */
#define VERSION_LEAST 2

static int version(void)
{
    return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

bool landlock_supported(void)
{
    return version() >= VERSION_LEAST;
}

static uint64_t known(int of_version)
{
    if (of_version >= 5)
        return ALL;
    return of_version >= 3 ? ALL >> 1 : ALL >> 2;
}

static int allow(int ruleset, const char *path, uint64_t access)
{
    _cleanup_(closep) int fd = open(path, O_PATH | O_CLOEXEC);
    struct landlock_path_beneath_attr rule = {.parent_fd = fd, .allowed_access = access};
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISDIR(st.st_mode))
        rule.allowed_access &= OF_FILES;
    return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0 ? -errno : 0;
}

static int allow_all(int ruleset, const char *const *places, uint64_t access)
{
    int r = 0;

    for (; r == 0 && *places; places++)
        r = allow(ruleset, *places, access);
    return r;
}

/* Confines it to the places. 0; -EOPNOTSUPP where the kernel cannot; or another negative errno. */
static int landlock_confine(const Confinement *rights)
{
    int supported = version(), r;
    struct landlock_ruleset_attr handled = {.handled_access_fs = known(supported)};

    if (supported < VERSION_LEAST)
        return -EOPNOTSUPP;
    _cleanup_(closep) int ruleset =
        (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof(handled.handled_access_fs), 0);
    if (ruleset < 0)
        return -errno;
    r = allow_all(ruleset, rights->readable, READING);
    if (r == 0)
        r = allow_all(ruleset, rights->writable, WRITING & handled.handled_access_fs);
    if (r == 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        r = -errno;
    return r;
}

/* ---- rights ---- */

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

static int drop_powers(const Confinement *rights)
{
    int r = prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 ? -errno : drop_bounding_set();

    if (r == 0)
        r = change_account(&rights->account);
    return r == 0 ? keep_capabilities(rights->capabilities) : r;
}

int rights_drop(const Confinement *rights, pid_t parent, Problem *problem)
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
