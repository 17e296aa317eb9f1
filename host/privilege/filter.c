/* The system calls of a process that serves sockets and files. Most are let through: what they reach is
 * bounded by uid, capabilities and landlock. Those that make other processes, change what a process sees,
 * reach into other processes, or have the kernel do unusual work are refused. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "host/privilege/drop.h"

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
