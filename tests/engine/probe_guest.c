/* Stands in for limpet-guest in the tests of the engines: writes what it sees from inside its container into
 * /session/report.txt, one "key value" a line, and then does what /run/limpet/mode says: "stay", "exit" or
 * "oom" (a child is killed for want of memory, then it stays) or "look" (waits for /session/look, and reports
 * in /session/data.txt what it can do to /data by then). Called with arguments, as by the engine that does
 * not isolate, it takes the two directories from them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static FILE *report;

static void say_errno(const char *key, const char *what, int failed)
{
    fprintf(report, "%s %s %s\n", key, what, failed ? strerrorname_np(errno) : "ok");
}

static void copy_lines(const char *path, const char *key, const char *const *prefixes)
{
    FILE *file = fopen(path, "re");
    char line[4096];

    while (file && fgets(line, sizeof(line), file))
        for (size_t i = 0; prefixes[i]; i++)
            if (strncmp(line, prefixes[i], strlen(prefixes[i])) == 0)
                fprintf(report, "%s %s", key, line);
    if (file)
        fclose(file);
}

static void say_identity(void)
{
    static const char *const wanted[] = {"Uid:",
                                         "Gid:",
                                         "Groups:",
                                         "CapInh:",
                                         "CapPrm:",
                                         "CapEff:",
                                         "CapBnd:",
                                         "CapAmb:",
                                         "SigIgn:",
                                         "NoNewPrivs:",
                                         "Seccomp:",
                                         "SigBlk:",
                                         "Cpus_allowed_list:",
                                         NULL};
    static const char *const whole[] = {"", NULL};
    char name[256] = "";

    copy_lines("/proc/self/status", "status", wanted);
    gethostname(name, sizeof(name) - 1);
    fprintf(report, "hostname %s\npid %d\nsid %d\nnice %d\n", name, getpid(), getsid(0),
            getpriority(PRIO_PROCESS, 0));
    fprintf(report, "cwd %s\n", getcwd(name, sizeof(name)) ? name : "?");
    copy_lines("/proc/self/oom_score_adj", "oom_score_adj", whole);
    copy_lines("/proc/self/mountinfo", "mount", whole);
    for (char **variable = environ; *variable; variable++)
        fprintf(report, "env %s\n", *variable);
}

static void list(const char *path, const char *key)
{
    DIR *directory = opendir(path);
    struct dirent *entry;

    while (directory && (entry = readdir(directory)))
        if (entry->d_name[0] != '.')
            fprintf(report, "%s %s\n", key, entry->d_name);
    if (directory)
        closedir(directory);
}

static void say_descriptors(void)
{
    for (int fd = 0; fd < 64; fd++) {
        char path[64], target[256] = "";

        if (fd == fileno(report))
            continue;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof(target) - 1) > 0)
            fprintf(report, "fd %d %s\n", fd, target);
    }
}

static void try_write(const char *directory)
{
    char path[256];
    int fd;

    snprintf(path, sizeof(path), "%s/limpet-probe", directory);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    say_errno("write", directory, fd < 0);
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
}

static void say_files(void)
{
    static const char *const directories[] = {"/",    "/usr",     "/data",    "/data/sub",  "/run/limpet",
                                              "/run", "/tmp",     "/dev/shm", "/home/user", "/proc",
                                              "/dev", "/session", "/work"};
    char text[64];
    ssize_t n;
    int fd;

    for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++)
        try_write(directories[i]);
    fd = open("/proc/sys/kernel/hostname", O_WRONLY | O_CLOEXEC);
    say_errno("write", "/proc/sys/kernel/hostname", fd < 0);
    list("/data", "data");
    list("/data/sub", "datasub");
    list("/sys/class/net", "net");
    copy_lines("/proc/net/dev", "netdev", (const char *const[]){" ", NULL});
    fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? 0 : read(fd, text, sizeof(text));
    fprintf(report, "kallsyms %zd\n", n);
}

/* Each is refused by the filter, whatever its arguments. */
static void say_syscalls(void)
{
    struct clone_args clone_arguments = {.flags = 0, .exit_signal = SIGCHLD};
    struct rlimit core = {0, 1};
    long r;

    say_errno("syscall", "unshare", syscall(SYS_unshare, CLONE_NEWUSER) < 0);
    say_errno("syscall", "clone_newuser", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) < 0);
    say_errno("syscall", "mount", mount("none", "/tmp", "tmpfs", 0, NULL) < 0);
    say_errno("syscall", "ptrace", ptrace(PTRACE_TRACEME, 0, 0, 0) < 0);
    say_errno("syscall", "io_uring_setup", syscall(SYS_io_uring_setup, 1, NULL) < 0);
    say_errno("syscall", "bpf", syscall(SYS_bpf, 0, NULL, 0) < 0);
    say_errno("syscall", "keyctl", syscall(SYS_keyctl, 0, 0, 0, 0, 0) < 0);
    say_errno("syscall", "userfaultfd", syscall(SYS_userfaultfd, 0) < 0);
    say_errno("syscall", "process_vm_readv", syscall(SYS_process_vm_readv, 1, NULL, 0, NULL, 0, 0) < 0);
    say_errno("syscall", "netlink", socket(AF_NETLINK, SOCK_RAW, 0) < 0);
    say_errno("syscall", "alg", socket(38, SOCK_SEQPACKET, 0) < 0);
    say_errno("syscall", "vsock", socket(40, SOCK_STREAM, 0) < 0);
    say_errno("syscall", "unix", socket(AF_UNIX, SOCK_STREAM, 0) < 0);
    say_errno("syscall", "mkfifo", mkfifo("/tmp/fifo", 0600) < 0);
    say_errno("syscall", "mknodat_char", mknod("/tmp/null", S_IFCHR | 0600, makedev(1, 3)) < 0);
    say_errno("syscall", "mknodat_block", mknod("/tmp/disk", S_IFBLK | 0600, makedev(7, 0)) < 0);
    say_errno("syscall", "mknodat_high",
              syscall(SYS_mknodat, AT_FDCWD, "/tmp/null", S_IFCHR | 0600 | (1L << 32), makedev(1, 3)) < 0);
#ifdef SYS_mknod
    say_errno("syscall", "mknod", syscall(SYS_mknod, "/tmp/other", S_IFIFO | 0600, 0) < 0);
    say_errno("syscall", "mknod_char", syscall(SYS_mknod, "/tmp/null", S_IFCHR | 0600, makedev(1, 3)) < 0);
#endif
    r = syscall(SYS_clone3, &clone_arguments, sizeof(clone_arguments));
    if (r == 0)
        _exit(0);
    say_errno("syscall", "clone3", r < 0);
    say_errno("syscall", "core_prlimit", syscall(SYS_prlimit64, 0, (long)RLIMIT_CORE, &core, NULL) < 0);
    say_errno("syscall", "core_prlimit_high",
              syscall(SYS_prlimit64, 0, RLIMIT_CORE | (1L << 32), &core, NULL) < 0);
#ifdef SYS_setrlimit
    say_errno("syscall", "core_setrlimit", syscall(SYS_setrlimit, (long)RLIMIT_CORE, &core) < 0);
    say_errno("syscall", "core_setrlimit_high", syscall(SYS_setrlimit, RLIMIT_CORE | (1L << 32), &core) < 0);
#endif
}

static void say_limits(void)
{
    static const struct {
        const char *name;
        int resource;
    } limits[] = {{"core", RLIMIT_CORE},
                  {"nofile", RLIMIT_NOFILE},
                  {"fsize", RLIMIT_FSIZE},
                  {"memlock", RLIMIT_MEMLOCK},
                  {"stack", RLIMIT_STACK},
                  {"cpu", RLIMIT_CPU},
                  {"data", RLIMIT_DATA},
                  {"as", RLIMIT_AS},
                  {"nproc", RLIMIT_NPROC},
                  {"nice", RLIMIT_NICE},
                  {"sigpending", RLIMIT_SIGPENDING}};
    struct rlimit value;

    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (getrlimit(limits[i].resource, &value) == 0)
            fprintf(report, "rlimit %s %llu %llu\n", limits[i].name, (unsigned long long)value.rlim_cur,
                    (unsigned long long)value.rlim_max);
        if (limits[i].resource != RLIMIT_CORE)
            say_errno("setrlimit", limits[i].name, setrlimit(limits[i].resource, &value) < 0);
    }
}

/* As the guest does: the host listens in the directory. */
static void greet(const char *directory)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", directory);
    say_errno("connect", "host", connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0);
    close(fd);
}

/* Takes memory until the kernel ends it. */
static void exhaust_memory(void)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0)
        for (;;) {
            char *block = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

            if (block == MAP_FAILED)
                _exit(1);
            memset(block, 1, 1 << 20);
        }
    waitpid(child, &status, 0);
    fprintf(report, "oom %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : -1);
}

static void try_to_change_data(void)
{
    const struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};
    struct mount_attr writable = {.attr_clr = MOUNT_ATTR_RDONLY};

    try_write("/data");
    try_write("/data/sub");
    say_errno("change", "open", open("/data/file", O_WRONLY | O_CLOEXEC) < 0);
    say_errno("change", "truncate", truncate("/data/file", 0) < 0);
    say_errno("change", "mkdir", mkdir("/data/directory", 0700) < 0);
    say_errno("change", "mknod", mknod("/data/null", S_IFCHR | 0666, makedev(1, 3)) < 0);
    say_errno("change", "mkfifo", mkfifo("/data/fifo", 0600) < 0);
    say_errno("change", "symlink", symlink("file", "/data/link") < 0);
    say_errno("change", "link", link("/data/file", "/data/other") < 0);
    say_errno("change", "rename", rename("/data/file", "/data/other") < 0);
    say_errno("change", "unlink", unlink("/data/file") < 0);
    say_errno("change", "rmdir", rmdir("/data/sub") < 0);
    say_errno("change", "chmod", chmod("/data/file", 04777) < 0);
    say_errno("change", "chown", chown("/data/file", 1, 1) < 0);
    say_errno("change", "touch", utimensat(AT_FDCWD, "/data/file", now, 0) < 0);
    say_errno("change", "setxattr", setxattr("/data/file", "user.limpet", "x", 1, 0) < 0);
    say_errno("change", "remount", mount(NULL, "/data", NULL, MS_REMOUNT | MS_BIND, NULL) < 0);
    say_errno("change", "mount_setattr",
              mount_setattr(AT_FDCWD, "/data", 0, &writable, sizeof(writable)) < 0);
    say_errno("change", "open_tree", open_tree(AT_FDCWD, "/data", OPEN_TREE_CLONE) < 0);
    say_errno("change", "umount", umount2("/data", MNT_DETACH) < 0);
}

/* Whoever makes the file has done to /data what is to be seen. */
static void wait_for_file(const char *directory, const char *path)
{
    char events[4096];
    int watch = inotify_init1(IN_CLOEXEC);

    inotify_add_watch(watch, directory, IN_CREATE);
    while (access(path, F_OK) < 0 && read(watch, events, sizeof(events)) > 0)
        ;
    close(watch);
}

static void look_at_data(void)
{
    wait_for_file("/session", "/session/look");
    report = fopen("/session/data.part", "we");
    if (!report)
        _exit(1);
    copy_lines("/proc/self/mountinfo", "mount", (const char *const[]){"", NULL});
    list("/data", "data");
    list("/data/sub", "datasub");
    copy_lines("/data/file", "text", (const char *const[]){"", NULL});
    try_to_change_data();
    fclose(report);
    rename("/session/data.part", "/session/data.txt");
}

static void read_mode(const char *directory, char *ret, size_t size)
{
    char path[4096];
    ssize_t n = 0;
    int fd;

    snprintf(path, sizeof(path), "%s/mode", directory);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, ret, size - 1);
        close(fd);
    }
    ret[n > 0 ? n : 0] = '\0';
}

int main(int argc, char **argv)
{
    const char *session = argc > 4 ? argv[4] : "/session",
               *link_directory = argc > 2 ? argv[2] : "/run/limpet";
    char mode[16], part[4096], whole[4096];

    snprintf(part, sizeof(part), "%s/report.part", session);
    snprintf(whole, sizeof(whole), "%s/report.txt", session);
    report = fopen(part, "we");
    if (!report)
        return 1;
    read_mode(link_directory, mode, sizeof(mode));
    for (int i = 1; i < argc; i++)
        fprintf(report, "argument %s\n", argv[i]);
    say_descriptors();
    say_identity();
    say_limits();
    if (argc == 1) {
        say_files();
        say_syscalls();
    }
    greet(link_directory);
    if (strncmp(mode, "oom", 3) == 0)
        exhaust_memory();
    fclose(report);
    rename(part, whole);
    if (strncmp(mode, "exit", 4) == 0)
        return 7;
    if (strncmp(mode, "look", 4) == 0)
        look_at_data();
    if (strncmp(mode, "deaf", 4) == 0) {
        signal(SIGTERM, SIG_IGN);
        fork();
    }
    for (;;)
        pause();
}
