#include "host/session_options.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#define NOT_GIVEN                                                                                            \
    ((OptionsGiven){.timeout = NAN,                                                                          \
                    .memory = UINT64_MAX,                                                                    \
                    .cpus = NAN,                                                                             \
                    .pids = UINT64_MAX,                                                                      \
                    .disk = UINT64_MAX,                                                                      \
                    .files = UINT64_MAX,                                                                     \
                    .ttl = NAN})

static const Field given_fields[] = {
    FIELD(FIELD_DOUBLE, OptionsGiven, timeout, false, 0),
    FIELD(FIELD_SIZE, OptionsGiven, memory, false, 0),
    FIELD(FIELD_DOUBLE, OptionsGiven, cpus, false, 0),
    FIELD(FIELD_UINT, OptionsGiven, pids, false, 0),
    FIELD(FIELD_SIZE, OptionsGiven, disk, false, 0),
    FIELD(FIELD_UINT, OptionsGiven, files, false, 0),
    FIELD(FIELD_TEXT, OptionsGiven, data, false, LIMIT_PATH),
    FIELD(FIELD_MAP, OptionsGiven, env, false, 0),
    FIELD(FIELD_DOUBLE, OptionsGiven, ttl, false, 0),
    FIELD(FIELD_TEXT, OptionsGiven, network, false, 32),
    FIELD(FIELD_TEXT, OptionsGiven, image, false, 200),
    FIELD(FIELD_TEXT, OptionsGiven, checkpoint, false, 16),
};

static bool key_in(const msgpack_object *key, const char *const *names)
{
    for (; *names; names++)
        if (key->type == MSGPACK_OBJECT_STR &&
            text_equal((Text){key->via.str.ptr, key->via.str.size}, *names))
            return true;
    return false;
}

int options_given_decode(OptionsGiven *ret, const msgpack_object_map *body, const char *const *ignore,
                         Problem *problem)
{
    msgpack_object_map rest = {.ptr = ret->pairs};

    *ret = NOT_GIVEN;
    /* One pair more than there are options is enough for fields_decode to find the one that is wrong. */
    for (uint32_t i = 0; i < body->size && rest.size < ARRAY_SIZE(ret->pairs); i++)
        if (!key_in(&body->ptr[i].key, ignore))
            ret->pairs[rest.size++] = body->ptr[i];
    return fields_decode(ret, given_fields, ARRAY_SIZE(given_fields), &rest, problem);
}

static int settle_disk(SessionOptions *options, const OptionsGiven *given, const Options *defaults,
                       Problem *problem)
{
    options->disk = given->disk == UINT64_MAX ? defaults->disk : given->disk;
    options->files = given->files == UINT64_MAX ? defaults->files : given->files;
    if (options->disk < DISK_MINIMUM || options->disk > DISK_MAXIMUM)
        return problem_set(problem, ERR_BAD_REQUEST, "disk must be from %um to %llut", DISK_MINIMUM >> 20,
                           DISK_MAXIMUM >> 40);
    if (options->files < FILES_MINIMUM || options->files > FILES_MAXIMUM)
        return problem_set(problem, ERR_BAD_REQUEST, "files must be from %u to %u", FILES_MINIMUM,
                           FILES_MAXIMUM);
    return 0;
}

static int settle_numbers(SessionOptions *options, const OptionsGiven *given, const Options *defaults,
                          Problem *problem)
{
    options->timeout = isnan(given->timeout) ? defaults->timeout : given->timeout;
    options->memory = given->memory == UINT64_MAX ? defaults->memory : given->memory;
    options->cpus = isnan(given->cpus) ? defaults->cpus : given->cpus;
    options->pids = given->pids == UINT64_MAX ? defaults->pids : given->pids;
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

int session_options_settle(SessionOptions *ret, const OptionsGiven *given, const Options *defaults,
                           Problem *problem)
{
    int r = settle_numbers(ret, given, defaults, problem);

    if (r == 0)
        r = settle_disk(ret, given, defaults, problem);
    if (r == 0)
        r = settle_data(ret, given->data, problem);
    if (r == 0)
        r = settle_env(ret, given->env, problem);
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
    static const char *const none[] = {NULL};
    OptionsGiven given;

    if (options_given_decode(&given, map, none, problem) < 0)
        return -EPROTO;
    if (isnan(given.timeout) || given.memory == UINT64_MAX || isnan(given.cpus) || given.pids == UINT64_MAX ||
        isnan(given.ttl) || !given.env || !given.network.data || !given.image.data || !given.checkpoint.data)
        return problem_set(problem, ERR_BAD_REQUEST, "options are missing");
    ret->timeout = given.timeout;
    ret->memory = given.memory;
    ret->cpus = given.cpus;
    ret->pids = given.pids;
    /* One that was made before there were any has none. */
    ret->disk = MIN(given.disk, DISK_MAXIMUM);
    ret->files = MIN(given.files, FILES_MAXIMUM);
    ret->ttl = given.ttl;
    ret->data = text_dup(given.data);
    ret->network = text_dup(given.network);
    ret->image = text_dup(given.image);
    ret->checkpoint = text_dup(given.checkpoint);
    if (!ret->network || !ret->image || !ret->checkpoint || (given.data.data && !ret->data))
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    return settle_env(ret, given.env, problem);
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

size_t session_options_differ(const SessionOptions *options, const OptionsGiven *given,
                              const char *ret[static SESSION_OPTION_COUNT])
{
    size_t n = 0;

    if (!isnan(given->timeout) && given->timeout != options->timeout)
        ret[n++] = "timeout";
    if (given->memory != UINT64_MAX && given->memory != options->memory)
        ret[n++] = "memory";
    if (!isnan(given->cpus) && given->cpus != options->cpus)
        ret[n++] = "cpus";
    if (given->pids != UINT64_MAX && given->pids != options->pids)
        ret[n++] = "pids";
    if (given->disk != UINT64_MAX && given->disk != options->disk)
        ret[n++] = "disk";
    if (given->files != UINT64_MAX && given->files != options->files)
        ret[n++] = "files";
    if (given->data.data && data_differs(options->data, given->data))
        ret[n++] = "data";
    if (given->env && env_differs(&options->env, given->env))
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

void session_options_write(Writer *w, const SessionOptions *options)
{
    msgpack_unpacked env;

    msgpack_unpacked_init(&env);
    write_map(w, SESSION_OPTION_COUNT);
    write_key(w, "timeout");
    write_double(w, options->timeout);
    write_key(w, "memory");
    write_uint(w, options->memory);
    write_key(w, "cpus");
    write_double(w, options->cpus);
    write_key(w, "pids");
    write_uint(w, options->pids);
    write_key(w, "disk");
    write_uint(w, options->disk);
    write_key(w, "files");
    write_uint(w, options->files);
    write_key(w, "data");
    write_text(w, options->data);
    write_key(w, "env");
    if (msgpack_unpack_next(&env, (const char *)buf_head(&options->env), options->env.size, NULL) ==
        MSGPACK_UNPACK_SUCCESS)
        write_object(w, &env.data);
    else
        write_nil(w);
    write_key(w, "ttl");
    write_double(w, options->ttl);
    write_key(w, "network");
    write_text(w, options->network);
    write_key(w, "image");
    write_text(w, options->image);
    write_key(w, "checkpoint");
    write_text(w, options->checkpoint);
    msgpack_unpacked_destroy(&env);
}
