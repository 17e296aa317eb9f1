#include "host/engine/docker_json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/engine/profile.h"
#include "host/engine/view.h"

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static bool true_at(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

static json_t *load(const char *body, size_t size)
{
    json_t *json = json_loadb(body, size, 0, NULL);

    if (!json_is_object(json) && !json_is_array(json)) {
        json_decref(json);
        return NULL;
    }
    return json;
}

/* ---- requests ---- */

static json_t *bind_options(bool readonly, unsigned api_minor)
{
    if (readonly && api_minor >= DOCKER_API_RECURSIVE_READONLY)
        return json_pack("{s:s, s:b}", "Propagation", "rprivate", "ReadOnlyForceRecursive", 1);
    return json_pack("{s:s, s:b}", "Propagation", "rprivate", "NonRecursive", 1);
}

static int add_mount(json_t *mounts, const char *target, const char *source, bool readonly,
                     unsigned api_minor)
{
    json_t *mount = json_pack("{s:s, s:s, s:s, s:b, s:o}", "Type", "bind", "Source", source, "Target", target,
                              "ReadOnly", readonly, "BindOptions", bind_options(readonly, api_minor));

    return json_array_append_new(mounts, mount) < 0 ? -ENOMEM : 0;
}

static int add_part(json_t *mounts, const char *target, const char *directory, const char *part,
                    bool readonly, unsigned api_minor)
{
    char *path _cleanup_(freep) = NULL;

    if (asprintf(&path, "%s/%s", directory, part) < 0)
        return -ENOMEM;
    return add_mount(mounts, target, path, readonly, api_minor);
}

static int add_scratch(json_t *mounts, const char *target, const ContainerSpec *spec, const char *part,
                       bool readonly, unsigned api_minor)
{
    return add_part(mounts, target, spec->scratch_dir, part, readonly, api_minor);
}

static int set_mounts(json_t *host, const ContainerSpec *spec, const char *data_dir, const char *view,
                      unsigned api_minor)
{
    json_t *mounts = json_array();
    int r;

    if (json_object_set_new(host, "Mounts", mounts) < 0)
        return -ENOMEM;
    r = add_mount(mounts, "/session", spec->session_dir, false, api_minor);
    if (r == 0)
        r = add_mount(mounts, "/run/limpet", spec->link_dir, true, api_minor);
    if (r == 0)
        r = add_scratch(mounts, "/tmp", spec, "tmp", false, api_minor);
    if (r == 0)
        r = add_scratch(mounts, "/home/user", spec, "home", false, api_minor);
    if (r == 0 && spec->work)
        r = add_scratch(mounts, "/work", spec, "work", false, api_minor);
    if (r == 0 && *data_dir)
        r = add_mount(mounts, "/data", data_dir, true, api_minor);
    else if (r == 0)
        r = add_scratch(mounts, "/data", spec, "data", true, api_minor);
    for (size_t i = 0; r == 0 && i < VIEW_PARTS; i++)
        r = add_part(mounts, view_parts[i].target, view, view_parts[i].name, true, api_minor);
    return r;
}

static int set_limits(json_t *host, const ContainerSpec *spec)
{
    json_int_t memory = (json_int_t)spec->memory;
    json_t *limits _cleanup_(json_decrefp) =
        json_pack("{s:I, s:I, s:I, s:i, s:I, s:s}", "Memory", memory, "MemorySwap", memory, "NanoCpus",
                  (json_int_t)(spec->cpus * 1e9), "PidsLimit", (int)spec->pids, "ShmSize",
                  (json_int_t)profile_shm_size(spec->memory), "NetworkMode", spec->network);

    if (!limits || json_object_update(host, limits) < 0)
        return -ENOMEM;
    return profile_set_limit(json_object_get(host, "Ulimits"), "Name", "fsize", spec->largest_file);
}

static int set_seccomp(json_t *host)
{
    json_t *profile _cleanup_(json_decrefp) = profile_load(profile_seccomp);
    char *text _cleanup_(freep) = profile ? json_dumps(profile, JSON_COMPACT) : NULL;

    if (!text ||
        json_array_append_new(json_object_get(host, "SecurityOpt"), json_sprintf("seccomp=%s", text)) < 0)
        return -ENOMEM;
    return 0;
}

int docker_json_create(const ContainerSpec *spec, const char *image, const char *data_dir, const char *view,
                       unsigned api_minor, char **ret_json)
{
    json_t *body _cleanup_(json_decrefp) = profile_load(profile_docker);
    json_t *host = json_object_get(body, "HostConfig");
    json_t *identity _cleanup_(json_decrefp) = json_pack(
        "{s:s, s:b, s:{s:s, s:s}}", "Image", image, "NetworkDisabled", strcmp(spec->network, "none") == 0,
        "Labels", "limpet.owner", spec->owner, "limpet.session", spec->session);
    char *text;
    int r;

    if (!body || !identity || json_object_update(body, identity) < 0)
        return -ENOMEM;
    r = profile_add_env(json_object_get(body, "Env"), spec->cpus);
    if (r == 0)
        r = set_limits(host, spec);
    if (r == 0)
        r = set_seccomp(host);
    if (r == 0)
        r = set_mounts(host, spec, data_dir, view, api_minor);
    if (r < 0)
        return r;
    text = json_dumps(body, JSON_COMPACT);
    if (!text)
        return -ENOMEM;
    *ret_json = text;
    return 0;
}

/* ---- answers ---- */

void docker_json_message(const char *body, size_t size, char *ret, size_t ret_size)
{
    json_t *json _cleanup_(json_decrefp) = load(body, size);
    const char *message = text_of(json, "message");

    if (message)
        snprintf(ret, ret_size, "%s", message);
    else
        snprintf(ret, ret_size, "%.*s", (int)MIN(size, 200u), body ? body : "");
}

int docker_json_state(const char *body, size_t size, DockerState *ret)
{
    json_t *json _cleanup_(json_decrefp) = load(body, size);
    const json_t *state = json_object_get(json, "State");
    const char *error = text_of(state, "Error"), *id = text_of(json, "Id");
    json_int_t pid = json_integer_value(json_object_get(state, "Pid"));

    if (!json_is_object(state) || pid < 0 || pid > INT32_MAX)
        return -EBADMSG;
    *ret = (DockerState){
        .running = true_at(state, "Running") && pid > 0,
        .pid = (pid_t)pid,
        .exit_code = (int)json_integer_value(json_object_get(state, "ExitCode")),
    };
    snprintf(ret->error, sizeof(ret->error), "%s", error ? error : "");
    snprintf(ret->id, sizeof(ret->id), "%s", id ? id : "");
    return 0;
}

int docker_json_exit_code(const char *body, size_t size, int *ret)
{
    json_t *json _cleanup_(json_decrefp) = load(body, size);
    const json_t *code = json_object_get(json, "StatusCode");

    if (!json_is_integer(code))
        return -EBADMSG;
    *ret = (int)json_integer_value(code);
    return 0;
}

static const char *mount_source(const json_t *container, const char *target)
{
    json_t *mount;
    size_t i;

    json_array_foreach(json_object_get(container, "Mounts"), i, mount)
    {
        const char *destination = text_of(mount, "Destination");

        if (destination && strcmp(destination, target) == 0)
            return text_of(mount, "Source");
    }
    return NULL;
}

int docker_json_list(const char *body, size_t size, DockerFound found, void *userdata)
{
    json_t *json _cleanup_(json_decrefp) = load(body, size);
    json_t *container;
    size_t i;

    if (!json_is_array(json))
        return -EBADMSG;
    json_array_foreach(json, i, container)
    {
        const char *name = json_string_value(json_array_get(json_object_get(container, "Names"), 0));

        if (name && name[0] == '/' && name[1])
            found(userdata, name + 1, mount_source(container, "/session"), mount_source(container, "/tmp"));
    }
    return 0;
}

static bool has_security_option(const json_t *info, const char *option)
{
    json_t *entry;
    size_t i;

    json_array_foreach(json_object_get(info, "SecurityOptions"), i, entry)
    {
        const char *text = json_string_value(entry);

        if (text && strncmp(text, option, strlen(option)) == 0)
            return true;
    }
    return false;
}

static void copy_text(const json_t *object, const char *key, const char *fallback, char *ret, size_t size)
{
    const char *text = text_of(object, key);

    snprintf(ret, size, "%s", text ? text : fallback);
}

int docker_json_info(const char *body, size_t size, DockerInfo *ret)
{
    json_t *json _cleanup_(json_decrefp) = load(body, size);

    if (!json_is_object(json))
        return -EBADMSG;
    *ret = (DockerInfo){
        .seccomp = has_security_option(json, "name=seccomp"),
        .memory_limit = true_at(json, "MemoryLimit"),
        .pids_limit = true_at(json, "PidsLimit"),
        .swap_limit = true_at(json, "SwapLimit"),
        .live_restore = true_at(json, "LiveRestoreEnabled"),
    };
    copy_text(json, "ServerVersion", "unknown", ret->version, sizeof(ret->version));
    copy_text(json, "CgroupDriver", "unknown", ret->cgroup_driver, sizeof(ret->cgroup_driver));
    copy_text(json, "CgroupVersion", "1", ret->cgroup_version, sizeof(ret->cgroup_version));
    return 0;
}
