#include "host/launcher/request.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define INSTANCE_DIGITS 16
#define PIDS_MAXIMUM    (4u << 20)
#define CPUS_MAXIMUM    65536.0
#define BYTES_MAXIMUM   (UINT64_C(1) << 60)

#define DIGITS       "0123456789"
#define HEXADECIMAL  DIGITS "abcdef"
#define ALPHANUMERIC DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* ---- texts ---- */

static bool copy(char *ret, size_t size, Text text)
{
    if (!text.data || text.size >= size || memchr(text.data, '\0', text.size))
        return false;
    memcpy(ret, text.data, text.size);
    ret[text.size] = '\0';
    return true;
}

static bool consists_of(const char *text, const char *characters)
{
    return text[strspn(text, characters)] == '\0';
}

static bool is_printable(const char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            return false;
    return true;
}

static bool read_container(LauncherRequest *ret, Text text, const LauncherRequestRules *rules)
{
    char prefix[REQUEST_NAME_SIZE];
    size_t n = (size_t)snprintf(prefix, sizeof(prefix), "limpet-%s-", rules->owner);

    return copy(ret->container, sizeof(ret->container), text) && strncmp(ret->container, prefix, n) == 0 &&
           strlen(ret->container) == n + INSTANCE_DIGITS && consists_of(ret->container + n, HEXADECIMAL);
}

static bool read_directory(LauncherRequest *ret, Text text)
{
    return copy(ret->directory, sizeof(ret->directory), text) && *ret->directory && *ret->directory != '.' &&
           is_printable(ret->directory) && !strchr(ret->directory, '/');
}

static bool read_network(LauncherRequest *ret, Text text, const LauncherRequestRules *rules)
{
    size_t size;

    if (!copy(ret->network, sizeof(ret->network), text))
        return false;
    if (strcmp(ret->network, "none") == 0)
        return true;
    if (strcmp(ret->network, "bridge") != 0 && strcmp(ret->network, "host") != 0)
        return false;
    size = strlen(ret->network);
    for (const char *word = rules->allow_network; *word;
         word += strcspn(word, ", "), word += strspn(word, ", "))
        if (strcspn(word, ", ") == size && memcmp(word, ret->network, size) == 0)
            return true;
    /* An adopted container keeps a network that an earlier configuration allowed. */
    return ret->kind == LAUNCHER_ADOPT;
}

/* ---- messages ---- */

static bool read_limits(LauncherRequest *ret, const LauncherMsgContainer *container)
{
    ret->memory = container->memory;
    ret->pids = (unsigned)MIN(container->pids, UINT32_MAX);
    ret->largest_file = container->largest_file;
    ret->cpus = container->cpus;
    return ret->memory >= MEMORY_MINIMUM && ret->memory <= BYTES_MAXIMUM && ret->pids >= PIDS_MINIMUM &&
           ret->pids <= PIDS_MAXIMUM && ret->largest_file <= BYTES_MAXIMUM && ret->cpus > 0 &&
           ret->cpus <= CPUS_MAXIMUM;
}

static bool read_spec(LauncherRequest *ret, const msgpack_object_map *body, const LauncherRequestRules *rules,
                      Problem *problem)
{
    LauncherMsgContainer container;

    if (body_decode(&container, LauncherMsgContainer, body, problem) < 0)
        return false;
    ret->work = container.work;
    ret->data = container.data;
    return read_container(ret, container.container, rules) && read_directory(ret, container.directory) &&
           copy(ret->link, sizeof(ret->link), container.link) && *ret->link &&
           consists_of(ret->link, HEXADECIMAL) &&
           copy(ret->session, sizeof(ret->session), container.session) && *ret->session &&
           is_printable(ret->session) && copy(ret->image, sizeof(ret->image), container.image) &&
           consists_of(ret->image, ALPHANUMERIC "._:/@-") && read_network(ret, container.network, rules) &&
           read_limits(ret, &container);
}

static bool read_name(LauncherRequest *ret, const msgpack_object_map *body, const LauncherRequestRules *rules,
                      Problem *problem)
{
    LauncherMsgName name;

    return body_decode(&name, LauncherMsgName, body, problem) == 0 &&
           read_container(ret, name.container, rules);
}

static bool read_packages(LauncherRequest *ret, const msgpack_object_map *body,
                          const LauncherRequestRules *rules, Problem *problem)
{
    LauncherMsgPackages wanted;

    return body_decode(&wanted, LauncherMsgPackages, body, problem) == 0 &&
           read_container(ret, wanted.container, rules) &&
           copy(ret->packages, sizeof(ret->packages), wanted.packages) &&
           strlen(ret->packages) == REQUEST_PACKAGES_SIZE - 1 && consists_of(ret->packages, HEXADECIMAL);
}

static bool read_open(LauncherRequest *ret, const msgpack_object_map *body, Problem *problem)
{
    LauncherMsgOpen wanted;

    if (body_decode(&wanted, LauncherMsgOpen, body, problem) < 0)
        return false;
    ret->user = (uid_t)wanted.user;
    return copy(ret->path, sizeof(ret->path), wanted.path) && *ret->path == '/';
}

static bool read_disk(LauncherRequest *ret, const msgpack_object_map *body, Problem *problem)
{
    LauncherMsgDisk disk;

    if (body_decode(&disk, LauncherMsgDisk, body, problem) < 0)
        return false;
    ret->disk = (DiskSize){disk.bytes, disk.files};
    return read_directory(ret, disk.directory) && disk.bytes >= DISK_MINIMUM && disk.bytes <= DISK_MAXIMUM &&
           disk.files >= FILES_MINIMUM && disk.files <= FILES_MAXIMUM;
}

static bool read_of_session(LauncherRequest *ret, const msgpack_object_map *body, Problem *problem)
{
    LauncherMsgDirectory directory;

    return body_decode(&directory, LauncherMsgDirectory, body, problem) == 0 &&
           read_directory(ret, directory.directory);
}

static bool read_begin(LauncherRequest *ret, const msgpack_object_map *body, Problem *problem)
{
    LauncherMsgEngine engine;

    return body_decode(&engine, LauncherMsgEngine, body, problem) == 0 &&
           (!engine.engine.data || copy(ret->engine, sizeof(ret->engine), engine.engine)) &&
           consists_of(ret->engine, ALPHANUMERIC);
}

static bool read_unable(LauncherRequest *ret, const msgpack_object_map *body, Problem *problem)
{
    LauncherMsgProblem told;

    if (body_decode(&told, LauncherMsgProblem, body, problem) < 0)
        return false;
    problem_set(&ret->problem, (ErrorCode)told.code, "%.*s", (int)told.text.size, told.text.data);
    return true;
}

static bool read_nothing(const msgpack_object_map *body, Problem *problem)
{
    LauncherMsgNothing nothing;

    return body_decode(&nothing, LauncherMsgNothing, body, problem) == 0;
}

static bool read_body(LauncherRequest *ret, const msgpack_object_map *body, const LauncherRequestRules *rules)
{
    Problem problem = PROBLEM_NULL;

    switch (ret->kind) {
    case LAUNCHER_BEGIN:
        return read_begin(ret, body, &problem);
    case LAUNCHER_UNABLE:
        return read_unable(ret, body, &problem);
    case LAUNCHER_CREATE:
    case LAUNCHER_ADOPT:
        return read_spec(ret, body, rules, &problem);
    case LAUNCHER_REMOVE:
    case LAUNCHER_LEAVE:
    case LAUNCHER_ATTACH:
        return read_name(ret, body, rules, &problem);
    case LAUNCHER_PACKAGES:
        return read_packages(ret, body, rules, &problem);
    case LAUNCHER_OPEN:
        return read_open(ret, body, &problem);
    case LAUNCHER_DISK:
        return read_disk(ret, body, &problem);
    case LAUNCHER_DETACH:
    case LAUNCHER_MOUNT:
        return read_of_session(ret, body, &problem);
    case LAUNCHER_READY:
    case LAUNCHER_SWEEP:
    case LAUNCHER_EGRESS:
    case LAUNCHER_NET:
        return read_nothing(body, &problem);
    default:
        return false;
    }
}

size_t launcher_request_descriptors(const LauncherRequest *request)
{
    switch (request->kind) {
    case LAUNCHER_CREATE:
        return request->data;
    case LAUNCHER_ATTACH:
    case LAUNCHER_OPEN:
        return 2;
    case LAUNCHER_BEGIN:
    case LAUNCHER_DISK:
    case LAUNCHER_DETACH:
    case LAUNCHER_MOUNT:
    case LAUNCHER_PACKAGES:
    case LAUNCHER_EGRESS:
    case LAUNCHER_NET:
        return 1;
    default:
        return 0;
    }
}

int launcher_request_read(LauncherRequest *ret, const Message *message, const LauncherRequestRules *rules)
{
    *ret = (LauncherRequest){.kind = (LauncherKind)message->kind};
    return read_body(ret, &message->body, rules) ? 0 : -EBADMSG;
}
