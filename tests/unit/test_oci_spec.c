#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/engine/oci_spec.h"
#include "host/engine/profile.h"
#include "proto/limits.h"
#include "tests/support/cmocka.h"

static const ContainerSpec spec = {
    .name = "limpet-x",
    .owner = "me",
    .session = "conv-1",
    .image = "",
    .memory = 1u << 30,
    .cpus = 1.5,
    .pids = 128,
    .largest_file = UINT64_C(3) << 30,
    .network = "none",
    .session_dir = "/state/a \"b\"",
    .scratch_dir = "/scratch",
    .link_dir = "/run/x",
};

static OciParams params_of(const ContainerSpec *of)
{
    return (OciParams){.spec = of,
                       .rootfs = "/images/tiny/rootfs",
                       .data_dir = "",
                       .view = "",
                       .cgroup = "/limpet-me/limpet-x",
                       .architecture = "amd64",
                       .recursive_readonly = true,
                       .limits = true,
                       .swap_limit = true};
}

static json_t *make(const OciParams *params)
{
    char *text = NULL;
    json_t *config;

    assert_int_equal(oci_spec_make(params, &text), 0);
    config = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(config);
    free(text);
    return config;
}

/* The value at "a.b.c". */
static json_t *at(json_t *json, const char *path)
{
    char copy[200], *rest = copy, *key;

    snprintf(copy, sizeof(copy), "%s", path);
    while ((key = strsep(&rest, ".")))
        json = json_object_get(json, key);
    return json;
}

static json_int_t limit_of(json_t *limits, const char *type)
{
    json_t *limit;
    size_t i;

    json_array_foreach(limits, i, limit)
    {
        if (strcmp(json_string_value(json_object_get(limit, "type")), type) == 0)
            return json_integer_value(json_object_get(limit, "soft"));
    }
    return -1;
}

static json_t *mount_at(json_t *config, const char *target)
{
    json_t *mount;
    size_t i;

    json_array_foreach(json_object_get(config, "mounts"), i,
                       mount) if (strcmp(json_string_value(json_object_get(mount, "destination")), target) ==
                                  0) return mount;
    return NULL;
}

static bool has_option(json_t *mount, const char *option)
{
    json_t *entry;
    size_t i;

    json_array_foreach(json_object_get(mount, "options"), i,
                       entry) if (strcmp(json_string_value(entry), option) == 0) return true;
    return false;
}

TEST(test_processes_have_limits_where_groups_cannot)
{
    OciParams params = params_of(&spec);
    json_t *config;

    params.limits = false;
    config = make(&params);
    assert_null(at(config, "linux.resources.memory"));
    assert_null(at(config, "linux.resources.pids"));
    assert_null(at(config, "linux.cgroupsPath"));
    assert_int_equal(limit_of(at(config, "process.rlimits"), "RLIMIT_DATA"), INT64_C(2) << 30);
    assert_int_equal(limit_of(at(config, "process.rlimits"), "RLIMIT_NPROC"), 128);
    json_decref(config);
}

TEST(test_swap_is_left_alone_where_it_is_not_counted)
{
    OciParams params = params_of(&spec);
    json_t *config;

    params.swap_limit = false;
    config = make(&params);
    assert_null(at(config, "linux.resources.memory.swap"));
    json_decref(config);
}

TEST(test_a_tiny_share_of_cpu_is_one_the_kernel_takes)
{
    ContainerSpec small = spec;
    OciParams params = params_of(&small);
    json_t *config;

    small.cpus = 0.001;
    config = make(&params);
    assert_int_equal(json_integer_value(at(config, "linux.resources.cpu.quota")), 1000);
    json_decref(config);
}

/* Mounts below the data are read-only as well, or do not show. */
TEST(test_data_on_kernels_that_cannot_mount_it_whole)
{
    OciParams params = params_of(&spec);
    json_t *config, *data;

    params.data_dir = "/d";
    config = make(&params);
    data = mount_at(config, "/data");
    assert_true(has_option(data, "rbind") && has_option(data, "rro") && has_option(data, "rnosuid"));
    json_decref(config);
    params.recursive_readonly = false;
    config = make(&params);
    data = mount_at(config, "/data");
    assert_true(has_option(data, "bind") && has_option(data, "ro"));
    assert_false(has_option(data, "rbind"));
    json_decref(config);
}

TEST(test_an_unknown_machine_gets_no_container)
{
    OciParams params = params_of(&spec);
    char *text;

    params.architecture = "s390x";
    assert_int_equal(oci_spec_make(&params, &text), -EINVAL);
}

/* The filter */

static json_t *convert(const char *profile, const char *architecture, const char *capabilities)
{
    json_t *from = json_loads(profile, 0, NULL), *having = json_loads(capabilities, 0, NULL), *filter = NULL;
    int r = seccomp_to_oci(from, architecture, having, &filter);

    json_decref(from);
    json_decref(having);
    assert_true(r == 0 || r == -EINVAL);
    return r == 0 ? filter : NULL;
}

#define PROFILE(rules)                                                                                       \
    "{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"defaultErrnoRet\": 1, \"archMap\": [{\"architecture\": "      \
    "\"SCMP_ARCH_X86_64\", \"subArchitectures\": []}, {\"architecture\": \"SCMP_ARCH_AARCH64\", "            \
    "\"subArchitectures\": [\"SCMP_ARCH_ARM\"]}], \"syscalls\": [" rules "]}"
#define RULE(condition) "{\"names\": [\"read\"], \"action\": \"SCMP_ACT_ALLOW\"" condition "}"

static size_t rules_left(const char *profile, const char *architecture, const char *capabilities)
{
    json_t *filter = convert(profile, architecture, capabilities);
    size_t count = json_array_size(json_object_get(filter, "syscalls"));

    assert_non_null(filter);
    json_decref(filter);
    return count;
}

TEST(test_conditions)
{
    const char *for_arm = PROFILE(RULE(", \"includes\": {\"arches\": [\"arm64\"]}"));
    const char *not_for_arm = PROFILE(RULE(", \"excludes\": {\"arches\": [\"arm64\"]}"));
    const char *with = PROFILE(RULE(", \"includes\": {\"caps\": [\"CAP_A\"]}"));
    const char *without = PROFILE(RULE(", \"excludes\": {\"caps\": [\"CAP_A\"]}"));

    assert_int_equal(rules_left(PROFILE(RULE("")), "amd64", "[]"), 1);
    assert_int_equal(rules_left(for_arm, "amd64", "[]"), 0);
    assert_int_equal(rules_left(for_arm, "arm64", "[]"), 1);
    assert_int_equal(rules_left(not_for_arm, "amd64", "[]"), 1);
    assert_int_equal(rules_left(not_for_arm, "arm64", "[]"), 0);
    assert_int_equal(rules_left(with, "amd64", "[\"CAP_B\"]"), 0);
    assert_int_equal(rules_left(with, "amd64", "[\"CAP_B\", \"CAP_A\"]"), 1);
    assert_int_equal(rules_left(without, "amd64", "[\"CAP_A\"]"), 0);
    assert_int_equal(rules_left(without, "amd64", "[\"CAP_B\"]"), 1);
}

TEST(test_architectures)
{
    json_t *filter = convert(PROFILE(""), "arm64", "[]"), *names = json_object_get(filter, "architectures");

    assert_int_equal(json_array_size(names), 2);
    assert_string_equal(json_string_value(json_array_get(names, 0)), "SCMP_ARCH_AARCH64");
    assert_string_equal(json_string_value(json_array_get(names, 1)), "SCMP_ARCH_ARM");
    json_decref(filter);
}

TEST(test_what_is_not_understood_is_refused)
{
    assert_null(convert(PROFILE(RULE(", \"includes\": {\"minKernel\": \"4.8\"}")), "amd64", "[]"));
    assert_null(convert(PROFILE(RULE(", \"surprise\": 1")), "amd64", "[]"));
    assert_null(convert(PROFILE("7"), "amd64", "[]"));
    assert_null(convert("{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"syscalls\": []}", "amd64", "[]"));
    assert_null(convert("{}", "amd64", "[]"));
    assert_null(convert(PROFILE(""), "riscv64", "[]"));
}

TEST(test_rule_parts_are_kept)
{
    json_t *filter =
        convert(PROFILE(RULE(", \"errnoRet\": 38, \"comment\": \"x\", \"args\": [{\"index\": 0, "
                             "\"value\": 4294967292, \"valueTwo\": 8, \"op\": \"SCMP_CMP_MASKED_EQ\"}]")),
                "amd64", "[]");
    json_t *rule = json_array_get(json_object_get(filter, "syscalls"), 0);
    json_t *argument = json_array_get(json_object_get(rule, "args"), 0);

    assert_int_equal(json_integer_value(json_object_get(rule, "errnoRet")), 38);
    assert_int_equal(json_integer_value(json_object_get(argument, "value")), 4294967292);
    assert_int_equal(json_integer_value(json_object_get(argument, "valueTwo")), 8);
    assert_null(json_object_get(rule, "comment"));
    json_decref(filter);
}

/* The rules of our profile for one call whose first restricted argument has the given value. */
static bool profile_allows_resource(const char *call, size_t argument_index, uint64_t value)
{
    json_t *profile = profile_load(profile_seccomp), *rule, *name;
    bool allowed = false;
    size_t i, j;

    json_array_foreach(json_object_get(profile, "syscalls"), i, rule)
    {
        json_t *argument = json_array_get(json_object_get(rule, "args"), 0);
        uint64_t first = (uint64_t)json_integer_value(json_object_get(argument, "value"));
        uint64_t second = (uint64_t)json_integer_value(json_object_get(argument, "valueTwo"));

        json_array_foreach(json_object_get(rule, "names"), j, name)
        {
            if (strcmp(json_string_value(name), call) != 0 ||
                json_array_size(json_object_get(rule, "args")) != 1)
                continue;
            assert_int_equal(json_integer_value(json_object_get(argument, "index")), argument_index);
            assert_string_equal(json_string_value(json_object_get(argument, "op")), "SCMP_CMP_MASKED_EQ");
            allowed = allowed || (value & first) == second;
        }
    }
    json_decref(profile);
    return allowed;
}

/* The kernel looks at 32 bits of the resource, the filter at 64. */
TEST(test_core_limit_cannot_be_changed)
{
    for (uint64_t high = 0; high < 3; high++)
        for (uint64_t resource = 0; resource < 16; resource++) {
            assert_int_equal(profile_allows_resource("prlimit64", 1, resource | high << 32), resource != 4);
            assert_int_equal(profile_allows_resource("setrlimit", 0, resource | high << 32), resource != 4);
        }
}

TEST(test_threads)
{
    assert_int_equal(profile_threads(0.1), 1);
    assert_int_equal(profile_threads(1), 1);
    assert_int_equal(profile_threads(1.5), 2);
    assert_int_equal(profile_threads(8), 8);
    assert_int_equal(profile_threads(1e9), 1024);
}
