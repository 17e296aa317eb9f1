/* Requests of the controller, as the launcher reads them: whatever comes, it is nothing, or within the closed
 * set. */
#include <stdlib.h>
#include <string.h>

#include "host/launcher/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static bool is_component(const char *name)
{
    return *name && *name != '.' && !strchr(name, '/');
}

static void check_spec(const LauncherRequest *request)
{
    require(is_component(request->directory) && is_component(request->link));
    require(request->memory >= MEMORY_MINIMUM && request->pids >= PIDS_MINIMUM && request->cpus > 0);
    require(strcmp(request->network, "bridge") != 0 || request->kind == LAUNCHER_ADOPT);
}

static void check(const LauncherRequest *request)
{
    switch (request->kind) {
    case LAUNCHER_CREATE:
    case LAUNCHER_ADOPT:
        check_spec(request);
        /* fall through */
    case LAUNCHER_REMOVE:
    case LAUNCHER_LEAVE:
    case LAUNCHER_ATTACH:
        require(strncmp(request->container, "limpet-0123abcd-", 16) == 0 && is_component(request->container));
        break;
    case LAUNCHER_DISK:
        require(request->disk.bytes >= DISK_MINIMUM && request->disk.files >= FILES_MINIMUM);
        /* fall through */
    case LAUNCHER_DETACH:
    case LAUNCHER_MOUNT:
        require(is_component(request->directory));
        break;
    case LAUNCHER_PACKAGES:
        require(strlen(request->packages) == 64 && strspn(request->packages, "0123456789abcdef") == 64);
        break;
    case LAUNCHER_OPEN:
        require(*request->path == '/');
        break;
    case LAUNCHER_BEGIN:
    case LAUNCHER_READY:
    case LAUNCHER_UNABLE:
    case LAUNCHER_SWEEP:
        break;
    default:
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const LauncherRequestRules rules = {.owner = "0123abcd", .allow_network = "host"};
    static LauncherRequest request;
    Problem problem = PROBLEM_NULL;
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;

    if (message_decode(&message, data, size, &problem) == 0 &&
        launcher_request_read(&request, &message, &rules) == 0)
        check(&request);
    return 0;
}
