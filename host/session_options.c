#include "host/session_options.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

int options_given_decode(MsgOptions *ret, Text *ret_session, const msgpack_object_map *body, Problem *problem)
{
    MsgOpen open;
    int r = body_decode(&open, MsgOpen, body, problem);

    if (r < 0)
        return r;
    *ret_session = open.session;
    *ret = open.options;
    return 0;
}

static int settle_disk(SessionOptions *options, const MsgOptions *given, const Options *defaults,
                       Problem *problem)
{
    options->disk = given->disk.bytes == NO_UINT ? defaults->disk : given->disk.bytes;
    options->files = given->files == NO_UINT ? defaults->files : given->files;
    if (options->disk < DISK_MINIMUM || options->disk > DISK_MAXIMUM)
        return problem_set(problem, ERR_BAD_REQUEST, "disk must be from %um to %llut", DISK_MINIMUM >> 20,
                           DISK_MAXIMUM >> 40);
    if (options->files < FILES_MINIMUM || options->files > FILES_MAXIMUM)
        return problem_set(problem, ERR_BAD_REQUEST, "files must be from %u to %u", FILES_MINIMUM,
                           FILES_MAXIMUM);
    return 0;
}

static int settle_numbers(SessionOptions *options, const MsgOptions *given, const Options *defaults,
                          Problem *problem)
{
    options->timeout = isnan(given->timeout) ? defaults->timeout : given->timeout;
    options->memory = given->memory.bytes == NO_UINT ? defaults->memory : given->memory.bytes;
    options->cpus = isnan(given->cpus) ? defaults->cpus : given->cpus;
    options->pids = given->pids == NO_UINT ? defaults->pids : given->pids;
    options->ttl = isnan(given->ttl) ? defaults->ttl : given->ttl;

    if (!(options->timeout > 0 && options->timeout <= TIMEOUT_MAXIMUM))
        return problem_set(problem, ERR_BAD_REQUEST, "timeout must be more than 0 and at most %.0f seconds",
                           TIMEOUT_MAXIMUM);
    if (options->memory < MEMORY_MINIMUM || options->memory > INT64_MAX)
        return problem_set(problem, ERR_BAD_REQUEST, "memory must be at least %um", MEMORY_MINIMUM >> 20);
    if (!(options->cpus >= 0.01 && options->cpus <= 1024))
        return problem_set(problem, ERR_BAD_REQUEST, "cpus must be from 0.01 to 1024");
    if (options->pids < PIDS_MINIMUM || options->pids > 32768)
        return problem_set(problem, ERR_BAD_REQUEST, "pids must be from %u to 32768", PIDS_MINIMUM);
    if (!(options->ttl >= 0 && options->ttl <= 1e9))
        return problem_set(problem, ERR_BAD_REQUEST, "ttl must be 0 (never) or a number of seconds");
    return 0;
}

static int settle_data(SessionOptions *options, Text given, Problem *problem)
{
    char *path _cleanup_(freep) = NULL;
    struct stat st;

    if (!given.data)
        return 0;
    path = text_dup(given);
    if (!path || strlen(path) != given.size || *path != '/')
        return problem_set(problem, ERR_BAD_REQUEST,
                           "data must be the absolute path of a directory on the host");
    options->data = realpath(path, NULL);
    if (!options->data)
        return problem_set(problem, ERR_BAD_REQUEST, "the data directory %s cannot be used: %s", path,
                           strerror(errno));
    if (stat(options->data, &st) < 0 || !S_ISDIR(st.st_mode))
        return problem_set(problem, ERR_BAD_REQUEST, "data: %s is not a directory", path);
    return 0;
}

static bool env_text_valid(const msgpack_object *object, bool is_name)
{
    if (object->type != MSGPACK_OBJECT_STR || memchr(object->via.str.ptr, '\0', object->via.str.size))
        return false;
    return !is_name || (object->via.str.size > 0 && !memchr(object->via.str.ptr, '=', object->via.str.size));
}

static int settle_env(SessionOptions *options, const msgpack_object_map *given, Problem *problem)
{
    Writer w;
    uint32_t n = given ? given->size : 0;

    if (n > LIMIT_ENV)
        return problem_set(problem, ERR_TOO_LARGE, "env may have %u variables at most", LIMIT_ENV);
    writer_init(&w, &options->env);
    write_map(&w, n);
    for (uint32_t i = 0; i < n; i++) {
        if (!env_text_valid(&given->ptr[i].key, true) || !env_text_valid(&given->ptr[i].val, false))
            return problem_set(problem, ERR_BAD_REQUEST, "env must map names to text, without `=` in a name");
        write_object(&w, &given->ptr[i].key);
        write_object(&w, &given->ptr[i].val);
    }
    return writer_finish(&w);
}

/* Whether `name` is in the comma-separated list. */
static bool in_list(const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = list; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        size_t item = strcspn(at, ",");
        if (item == n && strncmp(at, name, n) == 0)
            return true;
    }
    return false;
}

static int settle_network(SessionOptions *options, Text given, const Options *defaults, Problem *problem)
{
    options->network = given.data ? text_dup(given) : strdup("none");
    if (!options->network)
        return -ENOMEM;
    if (strcmp(options->network, "none") == 0)
        return 0;
    if (strcmp(options->network, "bridge") != 0 && strcmp(options->network, "host") != 0)
        return problem_set(problem, ERR_BAD_REQUEST, "network must be none, bridge or host");
    if (!in_list(defaults->allow_network, options->network))
        return problem_set(
            problem, ERR_DENIED,
            "network '%s' is not allowed here; the controller's option allow_network would allow it",
            options->network);
    return 0;
}

static int settle_image(SessionOptions *options, Text given, const Options *defaults, Problem *problem)
{
    options->image = given.data ? text_dup(given) : strdup(defaults->image);
    if (!options->image)
        return -ENOMEM;
    for (const char *c = options->image; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:", *c) ||
            strstr(options->image, "..") || *options->image == '/')
            return problem_set(problem, ERR_BAD_REQUEST, "image: '%s' is not the name of an image",
                               options->image);
    return 0;
}

static int settle_checkpoint(SessionOptions *options, Text given, const Options *defaults, Problem *problem)
{
    if (given.data && !text_equal(given, "auto") && !text_equal(given, "always") && !text_equal(given, "off"))
        return problem_set(problem, ERR_BAD_REQUEST, "checkpoint must be auto, always or off");
    options->checkpoint = given.data ? text_dup(given) : strdup(defaults->checkpoint);
    return options->checkpoint ? 0 : -ENOMEM;
}

int session_options_settle(SessionOptions *ret, const MsgOptions *given, const Options *defaults,
                           Problem *problem)
{
    int r = settle_numbers(ret, given, defaults, problem);

    if (r == 0)
        r = settle_disk(ret, given, defaults, problem);
    if (r == 0)
        r = settle_data(ret, given->data, problem);
    if (r == 0)
        r = settle_env(ret, given->env.map, problem);
    if (r == 0)
        r = settle_network(ret, given->network, defaults, problem);
    if (r == 0)
        r = settle_image(ret, given->image, defaults, problem);
    if (r == 0)
        r = settle_checkpoint(ret, given->checkpoint, defaults, problem);
    if (r < 0 && problem->code == ERR_NONE)
        problem_set(problem, ERR_INTERNAL, "out of memory");
    return r;
}

int session_options_read(SessionOptions *ret, const msgpack_object_map *map, Problem *problem)
{
    MsgOptions given;

    if (body_decode(&given, MsgOptions, map, problem) < 0)
        return -EPROTO;
    if (isnan(given.timeout) || given.memory.bytes == NO_UINT || isnan(given.cpus) || given.pids == NO_UINT ||
        isnan(given.ttl) || !given.env.map || !given.network.data || !given.image.data ||
        !given.checkpoint.data)
        return problem_set(problem, ERR_BAD_REQUEST, "options are missing");
    ret->timeout = given.timeout;
    ret->memory = given.memory.bytes;
    ret->cpus = given.cpus;
    ret->pids = given.pids;
    /* One that was made before there were any has none. */
    ret->disk = MIN(given.disk.bytes, DISK_MAXIMUM);
    ret->files = MIN(given.files, FILES_MAXIMUM);
    ret->ttl = given.ttl;
    ret->data = text_dup(given.data);
    ret->network = text_dup(given.network);
    ret->image = text_dup(given.image);
    ret->checkpoint = text_dup(given.checkpoint);
    if (!ret->network || !ret->image || !ret->checkpoint || (given.data.data && !ret->data))
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    return settle_env(ret, given.env.map, problem);
}

void session_options_deinit(SessionOptions *options)
{
    free(options->data);
    free(options->network);
    free(options->image);
    free(options->checkpoint);
    buf_deinit(&options->env);
    *options = (SessionOptions){0};
}

static bool data_differs(const char *data, Text given)
{
    char *path _cleanup_(freep) = text_dup(given);
    char *real _cleanup_(freep) = path ? realpath(path, NULL) : NULL;

    return !real || !data || strcmp(real, data) != 0;
}

/* Order matters not to a user, and so not here. */
static bool env_differs(const Buf *env, const msgpack_object_map *given)
{
    msgpack_unpacked current;
    bool differs;

    msgpack_unpacked_init(&current);
    differs = msgpack_unpack_next(&current, (const char *)buf_head(env), env->size, NULL) !=
                  MSGPACK_UNPACK_SUCCESS ||
              current.data.type != MSGPACK_OBJECT_MAP || current.data.via.map.size != given->size;
    for (uint32_t i = 0; !differs && i < given->size; i++) {
        const msgpack_object_kv *pairs = current.data.via.map.ptr;
        bool found = false;
        for (uint32_t k = 0; !found && k < given->size; k++)
            found = msgpack_object_equal(pairs[k].key, given->ptr[i].key) &&
                    msgpack_object_equal(pairs[k].val, given->ptr[i].val);
        differs = !found;
    }
    msgpack_unpacked_destroy(&current);
    return differs;
}

size_t session_options_differ(const SessionOptions *options, const MsgOptions *given,
                              const char *ret[static SESSION_OPTION_COUNT])
{
    size_t n = 0;

    if (!isnan(given->timeout) && given->timeout != options->timeout)
        ret[n++] = "timeout";
    if (given->memory.bytes != NO_UINT && given->memory.bytes != options->memory)
        ret[n++] = "memory";
    if (!isnan(given->cpus) && given->cpus != options->cpus)
        ret[n++] = "cpus";
    if (given->pids != NO_UINT && given->pids != options->pids)
        ret[n++] = "pids";
    if (given->disk.bytes != NO_UINT && given->disk.bytes != options->disk)
        ret[n++] = "disk";
    if (given->files != NO_UINT && given->files != options->files)
        ret[n++] = "files";
    if (given->data.data && data_differs(options->data, given->data))
        ret[n++] = "data";
    if (given->env.map && env_differs(&options->env, given->env.map))
        ret[n++] = "env";
    if (!isnan(given->ttl) && given->ttl != options->ttl)
        ret[n++] = "ttl";
    if (given->network.data && !text_equal(given->network, options->network))
        ret[n++] = "network";
    if (given->image.data && !text_equal(given->image, options->image))
        ret[n++] = "image";
    if (given->checkpoint.data && !text_equal(given->checkpoint, options->checkpoint))
        ret[n++] = "checkpoint";
    return n;
}

MsgOptions session_options_say(const SessionOptions *options)
{
    return (MsgOptions){
        .timeout = options->timeout,
        .memory = {.bytes = options->memory},
        .cpus = options->cpus,
        .pids = options->pids,
        .disk = {.bytes = options->disk},
        .files = options->files,
        .data = text_of(options->data),
        .env = value_encoded(&options->env),
        .ttl = options->ttl,
        .network = text_of(options->network),
        .image = text_of(options->image),
        .checkpoint = text_of(options->checkpoint),
    };
}
