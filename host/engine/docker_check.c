#include "host/engine/docker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/engine/check.h"
#include "host/engine/docker_http.h"
#include "host/engine/docker_json.h"

/* Versions 1.N of the API this was written for. */
#define API_LEAST 40u
#define API_MOST  51u

#define PING_SECONDS 3.0
#define CALL_SECONDS 20.0

/* The version to speak with an engine whose newest is `said`. */
static int choose_version(const char *said, unsigned *ret_minor)
{
    unsigned major, minor;

    if (sscanf(said, "%u.%u", &major, &minor) != 2 || major != 1 || minor < API_LEAST)
        return -EPROTONOSUPPORT;
    *ret_minor = MIN(minor, API_MOST);
    return 0;
}

static int ping(const EngineConfig *config, char version[16])
{
    Buf body = BUF_NULL;
    long status = docker_http_get(config->docker_socket, "/_ping", PING_SECONDS, &body, version);

    buf_deinit(&body);
    return status < 0 ? (int)status : status == 200 ? 0 : -EPROTO;
}

bool docker_answers(const EngineConfig *config)
{
    char version[16];
    unsigned minor;

    return ping(config, version) == 0 && choose_version(version, &minor) == 0;
}

static int negotiate(const EngineConfig *config, unsigned *ret_minor, Problem *problem)
{
    char version[16];

    if (ping(config, version) < 0)
        return problem_set(
            problem, ERR_ENGINE_ERROR,
            "no Docker Engine answers on %s; start it (systemctl start docker), give this user access to the "
            "socket, or set the option docker_socket or engine",
            config->docker_socket);
    if (choose_version(version, ret_minor) < 0)
        return problem_set(problem, ERR_ENGINE_ERROR,
                           "the Docker Engine on %s speaks API %s; Limpet needs 1.%u or newer (Docker 19.03)",
                           config->docker_socket, version, API_LEAST);
    return 0;
}

static int ask_info(const EngineConfig *config, unsigned minor, DockerInfo *ret, Problem *problem)
{
    char path[32], message[256];
    Buf body = BUF_NULL;
    long status;
    int r = 0;

    snprintf(path, sizeof(path), "/v1.%u/info", minor);
    status = docker_http_get(config->docker_socket, path, CALL_SECONDS, &body, NULL);
    if (status != 200 || docker_json_info((const char *)buf_head(&body), body.size, ret) < 0) {
        docker_json_message((const char *)buf_head(&body), body.size, message, sizeof(message));
        r = problem_set(problem, ERR_ENGINE_ERROR, "docker: GET /info: %s",
                        status < 0 ? strerror((int)-status) : message);
    }
    buf_deinit(&body);
    return r;
}

int docker_connect(const EngineConfig *config, unsigned *ret_minor, Problem *problem)
{
    DockerInfo info = {0};
    int r = negotiate(config, ret_minor, problem);

    if (r == 0)
        r = ask_info(config, *ret_minor, &info, problem);
    if (r < 0)
        return r;
    if (!info.seccomp || !info.memory_limit || !info.pids_limit)
        return problem_set(
            problem, ERR_ENGINE_ERROR,
            "the Docker Engine on %s cannot %s, so its containers would not isolate as they must; "
            "see limpetd --check",
            config->docker_socket,
            !info.seccomp        ? "filter system calls"
            : !info.memory_limit ? "limit memory"
                                 : "limit processes");
    return 0;
}

static bool is_dated(const char *version)
{
    unsigned major, minor, patch;

    if (sscanf(version, "%u.%u.%u", &major, &minor, &patch) != 3)
        return false;
    return major < 29 || (major == 29 && (minor < 5 || (minor == 5 && patch < 1)));
}

static void check_info(const Check *check, const DockerInfo *info)
{
    if (is_dated(info->version))
        check_say(check, FINDING_WARN, "version",
                  "update to 29.5.1 or newer, or to a distribution package with the fixes",
                  "Docker Engine %s lacks the fixes of CVE-2026-41567 and related problems", info->version);
    else
        check_say(check, FINDING_OK, "version", NULL, "Docker Engine %s", info->version);
    check_say(check, FINDING_OK, "cgroups", NULL, "version %s, driver %s", info->cgroup_version,
              info->cgroup_driver);
    if (!info->memory_limit || !info->pids_limit)
        check_say(check, FINDING_FAIL, "cgroups", "enable the memory and pids controllers for the engine",
                  "the engine cannot limit %s", info->memory_limit ? "processes" : "memory");
    if (!info->swap_limit)
        check_say(check, FINDING_WARN, "cgroups", "boot with swapaccount=1, or turn swap off",
                  "swap is not counted: a container may use swap on top of its memory");
    if (info->seccomp)
        check_say(check, FINDING_OK, "seccomp", NULL, "the engine filters system calls");
    else
        check_say(check, FINDING_FAIL, "seccomp", "use an engine and a kernel with seccomp",
                  "the engine cannot filter system calls");
    if (info->live_restore)
        check_say(check, FINDING_OK, "live restore", NULL, "sessions outlive a restart of the engine");
    else
        check_say(check, FINDING_WARN, "live restore",
                  "set \"live-restore\": true in /etc/docker/daemon.json",
                  "a restart of the engine ends every session");
}

void docker_image_reference(char *ret, size_t size, const char *image)
{
    snprintf(ret, size, "%s%s", strpbrk(image, ":/@") ? "" : DOCKER_REPOSITORY ":", image);
}

static void check_image(const Check *check, const EngineConfig *config, unsigned minor)
{
    const char *image = *config->image ? config->image : DOCKER_DEFAULT_IMAGE;
    char path[512], reference[256];
    Buf body = BUF_NULL;
    long status;

    docker_image_reference(reference, sizeof(reference), image);
    snprintf(path, sizeof(path), "/v1.%u/images/%s/json", minor, reference);
    status = docker_http_get(config->docker_socket, path, CALL_SECONDS, &body, NULL);
    buf_deinit(&body);
    if (status == 200)
        check_say(check, FINDING_OK, "image", NULL, "%s", reference);
    else
        check_say(check, FINDING_FAIL, "image", "limpet image build", "the engine has no image %s",
                  reference);
}

void docker_check(const EngineConfig *config, void (*report)(void *userdata, const EngineFinding *),
                  void *userdata)
{
    Check check = {report, userdata};
    Problem problem = PROBLEM_NULL;
    DockerInfo info = {0};
    unsigned minor = 0;

    if (negotiate(config, &minor, &problem) < 0) {
        check_say(&check, FINDING_FAIL, "socket", "start the Docker Engine, or use the engine oci", "%s",
                  problem.text);
        return;
    }
    check_say(&check, FINDING_OK, "socket", NULL, "%s answers; API 1.%u", config->docker_socket, minor);
    if (ask_info(config, minor, &info, &problem) < 0)
        check_say(&check, FINDING_FAIL, "engine", "see the log of the engine", "%s", problem.text);
    else
        check_info(&check, &info);
    check_scheduling(&check);
    check_image(&check, config, minor);
}
