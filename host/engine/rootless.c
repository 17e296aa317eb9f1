#include "host/engine/rootless.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/nsfs.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/engine/runtime.h"
#include "proto/base/program.h"
#include "proto/limits.h"

/* ---- subordinate ids ---- */

#define FILE_LIMIT (4u << 20)

/* "OWNER:FIRST:COUNT" */
static bool parse(const char *line, char owner[static 256], IdRange *ret)
{
    return sscanf(line, "%255[^:\n]:%" SCNu32 ":%" SCNu32, owner, &ret->first, &ret->count) == 3 &&
           ret->count <= UINT32_MAX - ret->first;
}

int subordinate_find(const char *text, const char *name, uint32_t id, IdRange *ret, uint32_t *ret_free)
{
    char owner[256], number[16];
    int r = -ENOENT;

    snprintf(number, sizeof(number), "%" PRIu32, id);
    *ret_free = SUBORDINATE_FIRST;
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        IdRange range;

        if (!parse(line, owner, &range))
            continue;
        *ret_free = MAX(*ret_free, range.first + range.count);
        if (r < 0 && (strcmp(owner, name) == 0 || strcmp(owner, number) == 0)) {
            *ret = range;
            r = 0;
        }
    }
    return r;
}

static int find_in(const char *file, const char *name, IdRange *ret, uint32_t *free_from)
{
    char *text _cleanup_(freep) = NULL;
    uint32_t from = SUBORDINATE_FIRST;
    int r = capture_file(file, FILE_LIMIT, &text);

    if (r == 0)
        r = subordinate_find(text, name, geteuid(), ret, &from);
    *free_from = MAX(*free_from, from);
    return r;
}

/* The ids inside are from 1 on, and have those of sandboxes among them. */
static bool suffices(const IdRange *range)
{
    return range->count >= MAX(MAX(GUEST_UID, SUPERVISOR_UID), BROWSER_UID);
}

/* Finds the ranges of the user who runs this. 0, or negative with a problem that says how to get them. */
static int subordinate_own(IdRange *ret_users, IdRange *ret_groups, Problem *problem)
{
    const struct passwd *user = getpwuid(geteuid());
    const char *name = user ? user->pw_name : "";
    uint32_t from = SUBORDINATE_FIRST;
    bool found = find_in("/etc/subuid", name, ret_users, &from) == 0;

    found &= find_in("/etc/subgid", name, ret_groups, &from) == 0;
    if (found && suffices(ret_users) && suffices(ret_groups))
        return 0;
    return problem_set(
        problem, ERR_ENGINE_ERROR,
        "%s has %s subordinate ids in /etc/subuid and /etc/subgid, which containers without root "
        "need; an administrator adds them with: usermod --add-subuids %" PRIu32 "-%" PRIu32
        " --add-subgids %" PRIu32 "-%" PRIu32 " %s",
        *name ? name : "this user", found ? "too few" : "no", from, from + SUBORDINATE_COUNT - 1, from,
        from + SUBORDINATE_COUNT - 1, *name ? name : "USER");
}

#define MAP_SECONDS 10.0

static bool entered;

bool rootless_entered(void)
{
    return entered;
}

/* ---- what it takes ---- */

/* All that gives a namespace its ids, found before there is one. */
typedef struct IdMapping {
    char *newuidmap, *newgidmap; /* paths */
    IdRange users, groups;
} IdMapping;

static void id_mapping_deinit(IdMapping *mapping)
{
    free(mapping->newuidmap);
    free(mapping->newgidmap);
}

static int find_mapping(IdMapping *ret, Problem *problem)
{
    if (spawn_find("newuidmap", &ret->newuidmap) < 0 || spawn_find("newgidmap", &ret->newgidmap) < 0)
        return problem_set(
            problem, ERR_ENGINE_ERROR,
            "containers without root need the programs newuidmap and newgidmap; an administrator "
            "installs them with: apt-get install uidmap");
    return subordinate_own(&ret->users, &ret->groups, problem);
}

static int refuse_namespace(int error, Problem *problem)
{
    return problem_set(
        problem, ERR_ENGINE_ERROR,
        "this machine gives an ordinary user no user namespace (%s), which containers without root "
        "need; see the settings user.max_user_namespaces, kernel.unprivileged_userns_clone and "
        "kernel.apparmor_restrict_unprivileged_userns of sysctl",
        strerror(error));
}

static int wait_for(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -ECHILD;
}

static int try_namespace(Problem *problem)
{
    pid_t pid = fork();
    int r;

    if (pid == 0)
        _exit(unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 ? errno : 0);
    r = pid < 0 ? -errno : wait_for(pid);
    return r == 0 ? 0 : refuse_namespace(r < 0 ? -r : r, problem);
}

int rootless_check(Problem *problem)
{
    IdMapping mapping _cleanup_(id_mapping_deinit) = {0};
    int r = find_mapping(&mapping, problem);

    return r < 0 ? r : try_namespace(problem);
}

/* ---- a new namespace ---- */

/* Has a program of root's map uid 0 to `own` and those from 1 on to the range. */
static int map(const char *program, pid_t pid, uint32_t own, const IdRange *range)
{
    char process[16], self[16], first[16], count[16];
    const char *const argv[] = {program, process, "0", self, "1", "1", first, count, NULL};
    Buf said = {.limit = 4096};
    int r;

    snprintf(process, sizeof(process), "%d", (int)pid);
    snprintf(self, sizeof(self), "%u", own);
    snprintf(first, sizeof(first), "%u", range->first);
    snprintf(count, sizeof(count), "%u", range->count);
    r = capture_program(argv, MAP_SECONDS, &said);
    buf_deinit(&said);
    return r;
}

/* Outside the namespace, where those programs have root's rights. Waits until it is there. */
static _Noreturn void map_from_outside(const IdMapping *mapping, pid_t pid, int begun)
{
    char byte;

    if (read(begun, &byte, 1) != 1)
        _exit(1);
    _exit(map(mapping->newuidmap, pid, geteuid(), &mapping->users) != 0 ||
          map(mapping->newgidmap, pid, getegid(), &mapping->groups) != 0);
}

static int become_root_inside(pid_t mapper, int begun, Problem *problem)
{
    int made = unshare(CLONE_NEWUSER) < 0 ? -errno : 0;
    int mapped;

    if (made == 0 && write(begun, "", 1) != 1)
        made = -errno;
    close(begun);
    mapped = wait_for(mapper);
    if (made < 0)
        return refuse_namespace(-made, problem);
    if (mapped != 0)
        return problem_set(
            problem, ERR_ENGINE_ERROR,
            "newuidmap or newgidmap did not map the subordinate ids of this user; compare "
            "/etc/subuid and /etc/subgid with what `unshare --map-root-user --map-auto true` says");
    return 0;
}

static int enter_new(Problem *problem)
{
    IdMapping mapping _cleanup_(id_mapping_deinit) = {0};
    int r = find_mapping(&mapping, problem), pipe[2];
    pid_t own = getpid(), mapper;

    if (r < 0)
        return r;
    if (pipe2(pipe, O_CLOEXEC) < 0)
        return problem_set(problem, ERR_INTERNAL, "pipe: %s", strerror(errno));
    mapper = fork();
    if (mapper == 0) {
        close(pipe[1]);
        map_from_outside(&mapping, own, pipe[0]);
    }
    close(pipe[0]);
    if (mapper > 0)
        return become_root_inside(mapper, pipe[1], problem);
    close(pipe[1]);
    return problem_set(problem, ERR_INTERNAL, "fork: %s", strerror(errno));
}

/* ---- that of an earlier controller ---- */

/* Returns the namespace above that of the process, if it was made by this user, or a negative errno. */
static int namespace_above(pid_t pid)
{
    char path[64];
    uid_t owner;

    snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
    int inner _cleanup_(closep) = open(path, O_RDONLY | O_CLOEXEC);
    int outer _cleanup_(closep) = inner < 0 ? -1 : ioctl(inner, NS_GET_PARENT);

    if (outer < 0 || ioctl(outer, NS_GET_OWNER_UID, &owner) < 0)
        return -errno;
    return owner == geteuid() ? take_fd(&outer) : -EPERM;
}

/* Only there are the containers that still run within reach. */
static int enter_former(const char *bundles)
{
    DIR *directory = opendir(bundles);
    struct dirent *entry;
    int r = -ENOENT;

    while (directory && r < 0 && (entry = readdir(directory))) {
        char path[PATH_MAX + NAME_MAX + 8];
        pid_t pid;

        snprintf(path, sizeof(path), "%s/%s/pid", bundles, entry->d_name);
        if (entry->d_name[0] == '.' || runtime_read_pid(path, &pid) < 0)
            continue;
        int above _cleanup_(closep) = namespace_above(pid);

        if (above >= 0)
            r = setns(above, CLONE_NEWUSER) < 0 ? -errno : 0;
    }
    if (directory)
        closedir(directory);
    return r;
}

/* Mounts that the machine gets later are seen here, too. */
static int own_mounts(Problem *problem)
{
    if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) == 0 &&
        mount("limpet", ROOTLESS_PLACE, "tmpfs", MS_NOSUID | MS_NODEV, "mode=711,size=64k") == 0)
        return 0;
    return refuse_namespace(errno, problem);
}

int rootless_enter(const EngineConfig *config, Problem *problem)
{
    char bundles[PATH_MAX];
    int r;

    snprintf(bundles, sizeof(bundles), "%s/bundles", config->runtime_dir);
    r = enter_former(bundles) == 0 ? 0 : enter_new(problem);
    if (r == 0)
        r = own_mounts(problem);
    entered = r == 0;
    return r;
}
