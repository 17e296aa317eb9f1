/* Answers of a Docker Engine: anything may come over its socket. */
#include <stdint.h>

#include "host/engine/docker_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void found(void *userdata, const char *name, const char *session_dir, const char *tmp_dir)
{
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *body = (const char *)data;
    char message[100];
    DockerState state;
    DockerInfo info;
    int code;

    docker_json_message(body, size, message, sizeof(message));
    docker_json_state(body, size, &state);
    docker_json_info(body, size, &info);
    docker_json_exit_code(body, size, &code);
    docker_json_list(body, size, found, NULL);
    return 0;
}
