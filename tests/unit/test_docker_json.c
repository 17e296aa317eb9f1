#include <stdio.h>
#include <string.h>

#include "host/engine/docker_json.h"
#include "host/engine/profile.h"
#include "tests/support/cmocka.h"

static const ContainerSpec spec = {
    .name = "limpet-x",
    .owner = "me",
    .session = "conv-1",
    .image = "",
    .memory = 512u << 20,
    .cpus = 0.5,
    .pids = 64,
    .largest_file = UINT64_C(3) << 30,
    .network = "none",
    .session_dir = "/s",
    .scratch_dir = "/scratch",
    .data = -1,
    .link_dir = "/l",
};

static json_t *make(const ContainerSpec *of, unsigned minor)
{
    char *text = NULL;
    json_t *body;

    assert_int_equal(docker_json_create(of, "limpet:default", "/d", "/v", minor, &text), 0);
    body = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(body);
    free(text);
    return body;
}

static json_t *host_part(json_t *body, const char *key)
{
    return json_object_get(json_object_get(body, "HostConfig"), key);
}

static json_t *mount_at(json_t *body, const char *target)
{
    json_t *mount;
    size_t i;

    json_array_foreach(host_part(body, "Mounts"), i,
                       mount) if (strcmp(json_string_value(json_object_get(mount, "Target")), target) ==
                                  0) return mount;
    return NULL;
}

static bool bind_option(json_t *mount, const char *option)
{
    return json_is_true(json_object_get(json_object_get(mount, "BindOptions"), option));
}

/* A writable mount below the data directory must not show through: with an old API it does not show at all.
 */
TEST(test_data_is_readonly_all_the_way_down)
{
    json_t *body = make(&spec, 43), *data = mount_at(body, "/data");

    assert_true(json_is_true(json_object_get(data, "ReadOnly")));
    assert_true(bind_option(data, "NonRecursive") && !bind_option(data, "ReadOnlyForceRecursive"));
    json_decref(body);
    body = make(&spec, 44);
    data = mount_at(body, "/data");
    assert_true(json_is_true(json_object_get(data, "ReadOnly")));
    assert_true(!bind_option(data, "NonRecursive") && bind_option(data, "ReadOnlyForceRecursive"));
    assert_true(bind_option(mount_at(body, "/session"), "NonRecursive"));
    assert_true(json_is_false(json_object_get(mount_at(body, "/session"), "ReadOnly")));
    assert_null(mount_at(body, "/work"));
    assert_string_equal(json_string_value(json_object_get(mount_at(body, "/tmp"), "Source")), "/scratch/tmp");
    assert_true(json_is_true(json_object_get(mount_at(body, "/proc/meminfo"), "ReadOnly")));
    json_decref(body);
}

/* Answers */

#define TEXT(s) (s), sizeof(s) - 1

TEST(test_state)
{
    DockerState container;

    assert_int_equal(
        docker_json_state(TEXT("{\"Id\":\"c0ffee\",\"State\":{\"Running\":true,\"Pid\":77,\"ExitCode\":0}}"),
                          &container),
        0);
    assert_true(container.running);
    assert_string_equal(container.id, "c0ffee");
    assert_int_equal(container.pid, 77);
    assert_int_equal(
        docker_json_state(TEXT("{\"State\":{\"Running\":false,\"Pid\":0,\"ExitCode\":127,\"Error\":\"no\"}}"),
                          &container),
        0);
    assert_false(container.running);
    assert_int_equal(container.exit_code, 127);
    assert_string_equal(container.error, "no");
    assert_string_equal(container.id, "");
    assert_true(docker_json_state(TEXT("{\"State\":{\"Running\":true,\"Pid\":-5}}"), &container) < 0);
    assert_true(docker_json_state(TEXT("{\"State\":{\"Running\":true,\"Pid\":99999999999}}"), &container) <
                0);
    assert_true(docker_json_state(TEXT("{\"State\":[]}"), &container) < 0);
    assert_true(docker_json_state(TEXT("[]"), &container) < 0);
    assert_true(docker_json_state(TEXT(""), &container) < 0);
}
