#include "host/engine/oci_spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "host/engine/profile.h"
#include "host/engine/rlimits.h"
#include "host/engine/seccomp.h"
#include "host/engine/userns.h"
#include "host/engine/view.h"

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
