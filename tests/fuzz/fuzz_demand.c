/* Demands of the controller, as the launcher reads them: whatever comes, it is nothing, or within the closed
 * set. */
#include <stdlib.h>
#include <string.h>

#include "host/launcher/demand.h"

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

static void check_spec(const Demand *demand)
{
    require(is_component(demand->directory) && is_component(demand->link));
    require(demand->memory >= MEMORY_MINIMUM && demand->pids >= PIDS_MINIMUM && demand->cpus > 0);
    require(strcmp(demand->network, "bridge") != 0 || demand->kind == SEAM_ADOPT);
}

static void check(const Demand *demand)
{
    switch (demand->kind) {
    case SEAM_CREATE:
    case SEAM_ADOPT:
        check_spec(demand);
        /* fall through */
    case SEAM_REMOVE:
    case SEAM_LEAVE:
    case SEAM_ATTACH:
        require(strncmp(demand->container, "limpet-0123abcd-", 16) == 0 && is_component(demand->container));
        break;
    case SEAM_DISK:
        require(demand->disk.bytes >= DISK_MINIMUM && demand->disk.files >= FILES_MINIMUM);
        /* fall through */
    case SEAM_DETACH:
    case SEAM_MOUNT:
        require(is_component(demand->directory));
        break;
    case SEAM_PACKAGES:
        require(strlen(demand->packages) == 64 && strspn(demand->packages, "0123456789abcdef") == 64);
        break;
    case SEAM_OPEN:
        require(*demand->path == '/');
        break;
    case SEAM_BEGIN:
    case SEAM_READY:
    case SEAM_UNABLE:
    case SEAM_SWEEP:
        break;
    default:
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const DemandRules rules = {.owner = "0123abcd", .allow_network = "host"};
    static Demand demand;
    Problem problem = PROBLEM_NULL;
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;

    if (message_decode(&message, data, size, &problem) == 0 && demand_read(&demand, &message, &rules) == 0)
        check(&demand);
    return 0;
}
