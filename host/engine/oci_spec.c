#include "host/engine/oci_spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "host/engine/check.h"
#include "host/engine/profile.h"
#include "host/engine/userns.h"
#include "host/engine/view.h"

static const struct {
    const char *docker, *seccomp;
} architectures[] = {
    {"amd64", "SCMP_ARCH_X86_64"},
    {"arm64", "SCMP_ARCH_AARCH64"},
};

static const char *seccomp_name(const char *architecture)
{
    for (size_t i = 0; i < ARRAY_SIZE(architectures); i++)
        if (strcmp(architectures[i].docker, architecture) == 0)
            return architectures[i].seccomp;
    return NULL;
}

static bool contains(const json_t *array, const char *text)
{
    size_t i;
    json_t *entry;

    json_array_foreach((json_t *)array, i,
                       entry) if (json_is_string(entry) &&
                                  strcmp(json_string_value(entry), text) == 0) return true;
    return false;
}

/* Refuses an object with a key that is not in the list, which ends with NULL. */
static int check_keys(const json_t *object, const char *const *known)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)object, key, value)
    {
        const char *const *name = known;

        while (*name && strcmp(*name, key) != 0)
            name++;
        if (!*name)
            return -EINVAL;
    }
    return 0;
}

static bool any_capability(const json_t *wanted, const json_t *capabilities)
{
    size_t i;
    json_t *entry;

    json_array_foreach((json_t *)wanted, i,
                       entry) if (json_is_string(entry) &&
                                  contains(capabilities, json_string_value(entry))) return true;
    return false;
}

/* 1 when the rule holds, 0 when it does not. */
static int rule_holds(const json_t *rule, const char *architecture, const json_t *capabilities)
{
    static const char *const condition_keys[] = {"arches", "caps", NULL};
    const json_t *includes = json_object_get(rule, "includes"), *excludes = json_object_get(rule, "excludes");
    const json_t *in_arches = json_object_get(includes, "arches"),
                 *in_caps = json_object_get(includes, "caps");

    if (check_keys(includes, condition_keys) < 0 || check_keys(excludes, condition_keys) < 0)
        return -EINVAL;
    if (contains(json_object_get(excludes, "arches"), architecture) ||
        any_capability(json_object_get(excludes, "caps"), capabilities))
        return 0;
    if (json_array_size(in_arches) > 0 && !contains(in_arches, architecture))
        return 0;
    return json_array_size(in_caps) == 0 || any_capability(in_caps, capabilities);
}

static int convert_rule(json_t *rules, const json_t *rule, const char *architecture,
                        const json_t *capabilities)
{
    static const char *const rule_keys[] = {"names",    "action",   "errnoRet", "args",
                                            "includes", "excludes", "comment",  NULL};
    static const char *const copied[] = {"names", "action", "errnoRet", "args"};
    json_t *converted;
    int r;

    if (!json_is_object(rule) || check_keys(rule, rule_keys) < 0 ||
        !json_is_array(json_object_get(rule, "names")) || !json_is_string(json_object_get(rule, "action")))
        return -EINVAL;
    r = rule_holds(rule, architecture, capabilities);
    if (r <= 0)
        return r;
    converted = json_object();
    if (json_array_append_new(rules, converted) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < ARRAY_SIZE(copied); i++) {
        json_t *value = json_object_get(rule, copied[i]);

        if (value && json_object_set(converted, copied[i], value) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* An array of the one architecture, with the sub-architectures that the profile allows next to it. */
static json_t *architecture_list(const json_t *profile, const char *name)
{
    json_t *entry, *list;
    size_t i;

    json_array_foreach(json_object_get(profile, "archMap"), i, entry)
    {
        const char *found = json_string_value(json_object_get(entry, "architecture"));

        if (!found || strcmp(found, name) != 0)
            continue;
        list = json_pack("[s]", name);
        if (list)
            json_array_extend(list, json_object_get(entry, "subArchitectures"));
        return list;
    }
    return NULL;
}

int seccomp_to_oci(const json_t *profile, const char *architecture, const json_t *capabilities, json_t **ret)
{
    static const char *const profile_keys[] = {"defaultAction", "defaultErrnoRet", "archMap", "syscalls",
                                               NULL};
    const char *name = seccomp_name(architecture);
    const json_t *action = json_object_get(profile, "defaultAction");
    json_t *converted _cleanup_(json_decrefp) = NULL;
    json_t *architecture_names, *rules, *rule;
    size_t i;
    int r;

    if (!name || !json_is_string(action) || check_keys(profile, profile_keys) < 0)
        return -EINVAL;
    architecture_names = architecture_list(profile, name);
    if (!architecture_names)
        return -EINVAL;
    converted = json_pack("{s:O, s:O*, s:o, s:[]}", "defaultAction", action, "defaultErrnoRet",
                          json_object_get(profile, "defaultErrnoRet"), "architectures", architecture_names,
                          "syscalls");
    if (!converted)
        return -ENOMEM;
    rules = json_object_get(converted, "syscalls");
    json_array_foreach(json_object_get(profile, "syscalls"), i, rule)
    {
        r = convert_rule(rules, rule, architecture, capabilities);
        if (r < 0)
            return r;
    }
    *ret = take(converted);
    return 0;
}

static const struct {
    const char *name;
    int resource;
} limits[] = {
    {"RLIMIT_CORE", RLIMIT_CORE},
    {"RLIMIT_NOFILE", RLIMIT_NOFILE},
    {"RLIMIT_FSIZE", RLIMIT_FSIZE},
    {"RLIMIT_MEMLOCK", RLIMIT_MEMLOCK},
    {"RLIMIT_STACK", RLIMIT_STACK},
    {"RLIMIT_MSGQUEUE", RLIMIT_MSGQUEUE},
    {"RLIMIT_SIGPENDING", RLIMIT_SIGPENDING},
};

/* The highest hard limit up to `wanted` that a child of this process may get. Whether it may be raised shows
 * by raising that of this process. */
static rlim_t attainable(int resource, rlim_t wanted)
{
    struct rlimit own;

    if (getrlimit(resource, &own) < 0 || own.rlim_max >= wanted)
        return wanted;
    return setrlimit(resource, &(struct rlimit){own.rlim_cur, wanted}) == 0 ? wanted : own.rlim_max;
}

static int fit(json_t *limit, int resource)
{
    rlim_t soft = (rlim_t)json_integer_value(json_object_get(limit, "soft"));
    rlim_t hard = attainable(resource, (rlim_t)json_integer_value(json_object_get(limit, "hard")));

    if (json_object_set_new(limit, "hard", json_integer((json_int_t)hard)) < 0 ||
        json_object_set_new(limit, "soft", json_integer((json_int_t)MIN(soft, hard))) < 0)
        return -ENOMEM;
    return 0;
}

/* Lowers what the array `rlimits` of an OCI configuration asks for to what this process may give. A hard
 * limit above its own needs CAP_SYS_RESOURCE, which sudo and services within containers often lack. */
static int rlimits_fit(json_t *rlimits)
{
    json_t *limit;
    size_t i;

    json_array_foreach(rlimits, i, limit)
    {
        const char *name = json_string_value(json_object_get(limit, "type"));

        for (size_t k = 0; name && k < ARRAY_SIZE(limits); k++)
            if (strcmp(name, limits[k].name) == 0 && fit(limit, limits[k].resource) < 0)
                return -ENOMEM;
    }
    return 0;
}

int rlimits_check(Problem *problem)
{
    if (attainable(RLIMIT_CORE, 1) == 1 || !check_dumps_are_piped())
        return 0;
    return problem_set(
        problem, ERR_ENGINE_ERROR,
        "crashes are piped to a program on the host (kernel.core_pattern), and limpetd may not set the "
        "limit that prevents this for sandboxes; start it with a hard limit for core files of at "
        "least 1 (ulimit -Hc), or with CAP_SYS_RESOURCE");
}

/* ---- config.json ---- */

#define CPU_PERIOD      100000 /* microseconds */
#define CPU_QUOTA_LEAST 1000   /* the kernel takes no less */
/* Memory that a process may reserve and not use, such as stacks of a hundred threads. */
#define RESERVED_MOST (UINT64_C(1) << 30)

static int add_mount(json_t *mounts, const char *target, const char *source, json_t *options)
{
    json_t *mount = json_pack("{s:s, s:s, s:s, s:o}", "destination", target, "type", "bind", "source", source,
                              "options", options);

    return json_array_append_new(mounts, mount) < 0 ? -ENOMEM : 0;
}

static json_t *writable_options(void)
{
    return json_pack("[s, s, s, s, s]", "bind", "rw", "nosuid", "nodev", "rprivate");
}

static json_t *readonly_options(void)
{
    return json_pack("[s, s, s, s, s]", "bind", "ro", "nosuid", "nodev", "rprivate");
}

/* Mounts below the host directory show as well, as read-only as the rest; where the runtime cannot do that
 * they do not show at all. */
static json_t *data_options(bool recursive_readonly)
{
    if (!recursive_readonly)
        return readonly_options();
    return json_pack("[s, s, s, s, s, s, s, s]", "rbind", "ro", "rro", "nosuid", "rnosuid", "nodev", "rnodev",
                     "rprivate");
}

/* Takes over the options. */
static int add_part(json_t *mounts, const char *target, const char *directory, const char *part,
                    json_t *options)
{
    char *path _cleanup_(freep) = NULL;

    if (asprintf(&path, "%s/%s", directory, part) < 0) {
        json_decref(options);
        return -ENOMEM;
    }
    return add_mount(mounts, target, path, options);
}

static int add_scratch(json_t *mounts, const char *target, const ContainerSpec *spec, const char *part)
{
    return add_part(mounts, target, spec->scratch_dir, part, writable_options());
}

static int add_view(json_t *mounts, const char *view)
{
    int r = 0;

    for (size_t i = 0; *view && r == 0 && i < VIEW_PARTS; i++)
        r = add_part(mounts, view_parts[i].target, view, view_parts[i].name, readonly_options());
    return r;
}

static int add_binds(json_t *mounts, const OciParams *params)
{
    const ContainerSpec *spec = params->spec;
    int r = add_mount(mounts, "/session", spec->session_dir, writable_options());

    if (r == 0)
        r = add_mount(mounts, "/run/limpet", params->spec->link_dir, readonly_options());
    if (r == 0)
        r = add_scratch(mounts, "/tmp", spec, "tmp");
    if (r == 0)
        r = add_scratch(mounts, "/home/user", spec, "home");
    if (r == 0 && spec->work)
        r = add_scratch(mounts, "/work", spec, "work");
    if (r == 0 && *params->data_dir)
        r = add_mount(mounts, "/data", params->data_dir, data_options(params->recursive_readonly));
    else if (r == 0)
        r = add_part(mounts, "/data", spec->scratch_dir, "data", readonly_options());
    if (r == 0)
        r = add_view(mounts, params->view);
    if (r == 0 && params->resolver)
        r = add_mount(mounts, "/etc/resolv.conf", "/etc/resolv.conf", readonly_options());
    return r;
}

/* Only who owns a mount may take noexec off it, which a runtime without root tries where it is not asked for.
 */
static int keep_noexec(json_t *mounts)
{
    size_t i;
    json_t *mount;

    json_array_foreach(mounts, i, mount)
    {
        const char *source = json_string_value(json_object_get(mount, "source"));
        struct statvfs fs;

        if (*source == '/' && statvfs(source, &fs) == 0 && fs.f_flag & ST_NOEXEC &&
            json_array_append_new(json_object_get(mount, "options"), json_string("noexec")) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int size_shm(json_t *mounts, uint64_t memory)
{
    size_t i;
    json_t *mount;

    json_array_foreach(mounts, i, mount)
    {
        const char *target = json_string_value(json_object_get(mount, "destination"));

        if (strcmp(target, "/dev/shm") == 0 &&
            json_array_append_new(json_object_get(mount, "options"),
                                  json_sprintf("size=%llu", (unsigned long long)profile_shm_size(memory))) <
                0)
            return -ENOMEM;
    }
    return 0;
}

static int set_resources(json_t *linux_part, const OciParams *params)
{
    const ContainerSpec *spec = params->spec;
    json_t *resources = json_object_get(linux_part, "resources");
    json_int_t memory = (json_int_t)spec->memory;
    json_int_t quota = MAX((json_int_t)(spec->cpus * CPU_PERIOD), CPU_QUOTA_LEAST);

    if (json_object_set_new(resources, "memory", json_pack("{s:I}", "limit", memory)) < 0 ||
        json_object_set_new(resources, "cpu", json_pack("{s:I, s:i}", "quota", quota, "period", CPU_PERIOD)) <
            0 ||
        json_object_set_new(resources, "pids", json_pack("{s:i}", "limit", (int)spec->pids)) < 0)
        return -ENOMEM;
    if (params->swap_limit &&
        json_object_set_new(json_object_get(resources, "memory"), "swap", json_integer(memory)) < 0)
        return -ENOMEM;
    return json_object_set_new(linux_part, "cgroupsPath", json_string(params->cgroup)) < 0 ? -ENOMEM : 0;
}

static int set_isolation(json_t *config, json_t *linux_part, const OciParams *params)
{
    json_t *process = json_object_get(config, "process");
    json_t *capabilities = json_object_get(json_object_get(process, "capabilities"), "bounding");
    json_t *profile _cleanup_(json_decrefp) = profile_load(profile_seccomp);
    json_t *filter;
    int r;

    if (!profile)
        return -ENOMEM;
    r = seccomp_to_oci(profile, params->architecture, capabilities, &filter);
    if (r < 0)
        return r;
    if (json_object_set_new(linux_part, "seccomp", filter) < 0)
        return -ENOMEM;
    if (strcmp(params->spec->network, "host") != 0 &&
        json_array_append_new(json_object_get(linux_part, "namespaces"),
                              json_pack("{s:s}", "type", "network")) < 0)
        return -ENOMEM;
    if (params->userns && userns_describe(linux_part) < 0)
        return -ENOMEM;
    return profile_add_env(json_object_get(process, "env"), params->spec->cpus);
}

static int add_limit(json_t *rlimits, const char *type, uint64_t value)
{
    json_int_t most = (json_int_t)value;

    return json_array_append_new(rlimits,
                                 json_pack("{s:s, s:I, s:I}", "type", type, "soft", most, "hard", most));
}

/* The interpreter keeps to the memory of the container by itself; this ends what gets out of hand beside it.
 * Only processes of the container count, whose users are no others'. */
static int set_limits_of_processes(json_t *rlimits, const ContainerSpec *spec)
{
    return add_limit(rlimits, "RLIMIT_DATA", spec->memory + RESERVED_MOST) < 0 ||
                   add_limit(rlimits, "RLIMIT_NPROC", spec->pids) < 0
               ? -ENOMEM
               : 0;
}

int oci_spec_make(const OciParams *params, char **ret_json)
{
    json_t *config _cleanup_(json_decrefp) = profile_load(profile_oci);
    json_t *linux_part = json_object_get(config, "linux"), *mounts = json_object_get(config, "mounts");
    const ContainerSpec *spec = params->spec;
    char *text;
    int r;

    if (!config ||
        json_object_set_new(json_object_get(config, "root"), "path", json_string(params->rootfs)) < 0)
        return -ENOMEM;
    r = json_object_set_new(
        config, "annotations",
        json_pack("{s:s, s:s}", "limpet.owner", spec->owner, "limpet.session", spec->session));
    if (r < 0)
        return -ENOMEM;
    r = params->limits
            ? set_resources(linux_part, params)
            : set_limits_of_processes(json_object_get(json_object_get(config, "process"), "rlimits"), spec);
    if (r == 0)
        r = profile_set_limit(json_object_get(json_object_get(config, "process"), "rlimits"), "type",
                              "RLIMIT_FSIZE", spec->largest_file);
    if (r == 0)
        r = rlimits_fit(json_object_get(json_object_get(config, "process"), "rlimits"));
    if (r == 0)
        r = set_isolation(config, linux_part, params);
    if (r == 0)
        r = size_shm(mounts, spec->memory);
    if (r == 0)
        r = add_binds(mounts, params);
    if (r == 0 && !params->limits)
        r = keep_noexec(mounts);
    if (r < 0)
        return r;
    text = json_dumps(config, JSON_COMPACT);
    if (!text)
        return -ENOMEM;
    *ret_json = text;
    return 0;
}
