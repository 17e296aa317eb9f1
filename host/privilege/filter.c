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

#define NEVER(call) IF(__NR_##call, 1), REFUSE(EPERM)

#define TYPE_MASK 0xfu /* SOCK_CLOEXEC and its like are above */

#define NAMESPACES                                                                                           \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |            \
     CLONE_NEWNET)

#ifdef ARCHITECTURE
static const struct sock_filter program[] = {
    LOAD(arch),
    IF_NOT(ARCHITECTURE, 1),
    RETURN(SECCOMP_RET_KILL_PROCESS),
    LOAD(nr),
#ifdef __x86_64__
    IF_LEAST(0x40000000, 1), /* the calls of x32 */
    RETURN(SECCOMP_RET_KILL_PROCESS),
#endif
    /* Other programs and processes. */
    NEVER(execve),
    NEVER(execveat),
#ifdef __NR_fork
    NEVER(fork),
    NEVER(vfork),
#endif
    NEVER(ptrace),
    NEVER(process_vm_readv),
    NEVER(process_vm_writev),
    NEVER(pidfd_getfd),
    NEVER(kcmp),
    /* What a process sees. */
    NEVER(mount),
    NEVER(umount2),
    NEVER(pivot_root),
    NEVER(chroot),
    NEVER(unshare),
    NEVER(setns),
    NEVER(open_tree),
    NEVER(move_mount),
    NEVER(fsopen),
    NEVER(fsconfig),
    NEVER(fsmount),
    NEVER(fspick),
    NEVER(mount_setattr),
    NEVER(swapon),
    NEVER(swapoff),
    NEVER(quotactl),
    /* Files by other ways than a path. */
    NEVER(open_by_handle_at),
    NEVER(name_to_handle_at),
    NEVER(mknodat),
#ifdef __NR_mknod
    NEVER(mknod),
#endif
    /* The kernel. */
    NEVER(bpf),
    NEVER(perf_event_open),
    NEVER(userfaultfd),
    NEVER(io_uring_setup),
    NEVER(io_uring_enter),
    NEVER(io_uring_register),
    NEVER(keyctl),
    NEVER(add_key),
    NEVER(request_key),
    NEVER(init_module),
    NEVER(finit_module),
    NEVER(delete_module),
    NEVER(kexec_load),
#ifdef __NR_kexec_file_load
    NEVER(kexec_file_load),
#endif
    NEVER(reboot),
    NEVER(syslog),
    NEVER(acct),
    NEVER(settimeofday),
    NEVER(clock_settime),
    NEVER(adjtimex),
    NEVER(clock_adjtime),
    NEVER(sethostname),
    NEVER(setdomainname),
    NEVER(personality),
#ifdef __NR_iopl
    NEVER(iopl),
    NEVER(ioperm),
#endif
    /* It listens and is connected to. */
    NEVER(connect),
    /* Threads are made by what has flags to look at; libraries fall back to it. */
    IF(__NR_clone3, 1),
    REFUSE(ENOSYS),
    IF(__NR_clone, 6),
    ARGUMENT(0),
    IF_SET(NAMESPACES, 1),
    REFUSE(EPERM),
    IF_SET(CLONE_THREAD, 1),
    RETURN(SECCOMP_RET_ALLOW),
    REFUSE(EPERM),
    IF(__NR_socket, 6),
    ARGUMENT(0),
    IF_NOT(AF_UNIX, 1),
    REFUSE(EAFNOSUPPORT),
    ARGUMENT(1),
    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, TYPE_MASK),
    BPF_STMT(BPF_JMP | BPF_JA, 5),
    IF(__NR_socketpair, 7),
    ARGUMENT(0),
    IF_NOT(AF_UNIX, 1),
    REFUSE(EAFNOSUPPORT),
    ARGUMENT(1),
    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, TYPE_MASK),
    /* Datagrams can be sent to any address. */
    IF(SOCK_DGRAM, 1),
    REFUSE(EPERM),
    RETURN(SECCOMP_RET_ALLOW),
};

int filter_install(void)
{
    struct sock_fprog filter = {.len = ARRAY_SIZE(program), .filter = (struct sock_filter *)program};

    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0 ? -errno : 0;
}
#else
int filter_install(void)
{
    return 0; /* a machine whose calls are not known here */
}
#endif
