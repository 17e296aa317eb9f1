#include "host/config/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "host/config/standard.h"

/* mkdir -p, the last one with mode 0700 and ours. */
static int make_directory(const char *path, Problem *problem)
{
    char copy[PATH_MAX];
    struct stat st;

    if (*path != '/' || strlen(path) >= sizeof(copy))
        return problem_set(problem, ERR_BAD_REQUEST, "'%s' is not an absolute path, or is too long", path);
    strcpy(copy, path);
    for (char *slash = copy + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(copy, 0755);
        *slash = '/';
    }
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return problem_set(problem, ERR_INTERNAL, "cannot create the directory %s: %s", path,
                           strerror(errno));
    if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
        return problem_set(problem, ERR_INTERNAL, "%s is not a directory", path);
    if (st.st_uid != geteuid())
        return problem_set(problem, ERR_DENIED, "%s belongs to uid %u, but this controller runs as uid %u",
                           path, st.st_uid, geteuid());
    return 0;
}

/* The directory as given or by the standard, made, as an absolute path without links. */
static int settle_directory(char **option, void (*standard)(char *, size_t), Problem *problem)
{
    const char *given = *option;
    char path[PATH_MAX], *real;
    int r;

    if (*given == '/')
        snprintf(path, sizeof(path), "%s", given);
    else if (*given && getcwd(path, sizeof(path) / 2))
        snprintf(path + strlen(path), sizeof(path) - strlen(path), "/%s", given);
    else
        standard(path, sizeof(path));
    r = make_directory(path, problem);
    if (r < 0)
        return r;
    real = realpath(path, NULL);
    if (!real)
        return problem_set(problem, ERR_INTERNAL, "%s: %s", path, strerror(errno));
    free(*option);
    *option = real;
    return 0;
}

/* FNV-1a of the state directory's path: stable, and short enough for names. */
static void settle_owner(char *ret, size_t size, const char *state_dir)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (const char *c = state_dir; *c; c++)
        hash = (hash ^ (uint8_t)*c) * UINT64_C(1099511628211);
    snprintf(ret, size, "%08x", (uint32_t)(hash ^ (hash >> 32)));
}

/* The guest program beside limpetd, as an install (lib/limpet beside bin) or a build tree has it. */
static char *find_guest(const char *given)
{
    static const char *const places[] = {"limpet-guest", "../lib/limpet/limpet-guest"};
    char self[PATH_MAX] = "", path[PATH_MAX + 64], *slash;

    if (*given)
        return strdup(given);
    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
        return strdup("");
    slash = strrchr(self, '/');
    if (slash)
        *slash = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        snprintf(path, sizeof(path), "%s/%s", self, places[i]);
        if (access(path, X_OK) == 0)
            return realpath(path, NULL);
    }
    return strdup("");
}

static char *find_authorized_keys(const char *given)
{
    char standard[PATH_MAX], *slash;

    if (*given)
        return strdup(given);
    standard_config(standard, sizeof(standard) - 16);
    slash = strrchr(standard, '/');
    strcpy(slash + 1, "authorized_keys");
    return strdup(standard);
}

/* ---- users ---- */

static int find_group(gid_t *ret, const char *name, Problem *problem)
{
    char space[1 << 16];
    struct group group, *found = NULL;

    getgrnam_r(name, &group, space, sizeof(space), &found);
    if (!found && strcmp(name, "limpet") != 0)
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "the group '%s' does not exist (option group); create it with groupadd, or set an empty "
            "name to admit only root",
            name);
    *ret = found ? found->gr_gid : NO_GROUP;
    return 0;
}

/* Its members may pass, to the socket or to what is theirs below, and see nothing on the way. */
static int admit(const char *directory, const char *below, gid_t group, Problem *problem)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s%s", directory, below);
    if ((mkdir(path, 0700) < 0 && errno != EEXIST) || lchown(path, (uid_t)-1, group) < 0 ||
        chmod(path, 0710) < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot give the group access to %s: %s", path,
                           strerror(errno));
    return 0;
}

static int settle_group(Paths *paths, const Options *options, Problem *problem)
{
    return paths->user == 0 && *options->group ? find_group(&paths->group, options->group, problem) : 0;
}

/* Only whoever has the lock may: a controller that runs has let its containers pass here as well. */
static int admit_group(const Paths *paths, Problem *problem)
{
    int r;

    if (paths->group == NO_GROUP)
        return 0;
    r = admit(paths->state_dir, "", paths->group, problem);
    if (r == 0)
        r = admit(paths->state_dir, "/sessions", paths->group, problem);
    if (r == 0)
        r = admit(paths->state_dir, "/outputs", paths->group, problem);
    return r < 0 ? r : admit(paths->runtime_dir, "/..", paths->group, problem);
}

/* Links of a pod are at a path that whoever describes the pod can name, since the guest has it mounted. */
static int name_links(Paths *paths, const Options *options)
{
    if (strcmp(options->engine, "pod") == 0)
        return asprintf(&paths->links, "%s/guest", options->runtime_dir);
    return asprintf(&paths->links, "%s/guests", paths->runtime_dir);
}

static int name_parts(Paths *paths, const Options *options)
{
    return asprintf(&paths->journals, "%s/journals", paths->state_dir) < 0 ||
                   asprintf(&paths->ended, "%s/ended", paths->state_dir) < 0 ||
                   asprintf(&paths->templates, "%s/templates", paths->state_dir) < 0 ||
                   asprintf(&paths->images, "%s/images", paths->state_dir) < 0 ||
                   name_links(paths, options) < 0
               ? -ENOMEM
               : 0;
}

int paths_init(Paths *paths, Options *options, Problem *problem)
{
    const char *base;
    int r;

    paths->user = geteuid();
    r = settle_directory(&options->state_dir, standard_state_dir, problem);
    if (r == 0)
        r = settle_directory(&options->runtime_dir, standard_runtime_dir, problem);
    if (r < 0)
        return r;
    base = options->runtime_dir;
    paths->state_dir = strdup(options->state_dir);
    if (!paths->state_dir)
        return -ENOMEM;
    settle_owner(paths->owner, sizeof(paths->owner), paths->state_dir);
    if (asprintf(&paths->runtime_dir, "%s/%s", base, paths->owner) < 0 || name_parts(paths, options) < 0)
        return -ENOMEM;
    r = make_directory(paths->runtime_dir, problem);
    if (r == 0)
        r = settle_group(paths, options, problem);
    if (r < 0)
        return r;
    if (*options->socket)
        paths->socket = strdup(options->socket);
    else if (asprintf(&paths->socket, "%s/limpet.sock", base) < 0)
        return -ENOMEM;
    paths->guest = find_guest(options->guest);
    paths->authorized_keys = find_authorized_keys(options->authorized_keys);
    return paths->socket && paths->guest && paths->authorized_keys ? 0 : -ENOMEM;
}

void paths_deinit(Paths *paths)
{
    free(paths->state_dir);
    free(paths->runtime_dir);
    free(paths->journals);
    free(paths->ended);
    free(paths->templates);
    free(paths->images);
    free(paths->links);
    free(paths->socket);
    free(paths->guest);
    free(paths->authorized_keys);
    close_fd(&paths->lock);
    *paths = PATHS_NULL;
}

int paths_lock(Paths *paths, Problem *problem)
{
    char path[PATH_MAX], assignment[PATH_MAX] = "";
    int fd _cleanup_(closep) = -1, r;

    snprintf(path, sizeof(path), "%s/lock", paths->state_dir);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return problem_set(problem, ERR_INTERNAL, "%s: %s", path, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        ssize_t n = pread(fd, assignment, sizeof(assignment) - 1, 0);
        assignment[n > 0 ? strcspn(assignment, "\n") : 0] = '\0';
        problem_set(problem, ERR_UNAVAILABLE, "another controller already uses %s: %s", paths->state_dir,
                    *assignment ? assignment : "it is starting");
        return -EWOULDBLOCK;
    }
    if (ftruncate(fd, 0) < 0 || dprintf(fd, "process %d, socket %s\n", getpid(), paths->socket) < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot write %s: %s", path, strerror(errno));
    paths->lock = take_fd(&fd);
    paths->pid = getpid();
    r = make_directory(paths->runtime_dir, problem); /* the last holder of the lock removed it as it ended */
    return r < 0 ? r : admit_group(paths, problem);
}
