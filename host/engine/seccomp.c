#include "host/engine/seccomp.h"

#include <errno.h>
#include <string.h>

#include "host/engine/profile.h"

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
