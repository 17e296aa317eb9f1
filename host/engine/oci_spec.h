/* The config.json of one container for an OCI runtime, from the profile and what is asked for. Of the machine
 * it sees nothing but flags of mounts. */
#pragma once

#include "host/engine/engine.h"

typedef struct OciParams {
    const ContainerSpec *spec;
    const char *rootfs;       /* absolute */
    const char *data_dir;     /* "": none */
    const char *view;         /* directory (view.h); "": none */
    bool userns;              /* with a user namespace of its own */
    const char *cgroup;       /* cgroupsPath */
    const char *architecture; /* as Docker names it */
    bool recursive_readonly;  /* the runtime can make a mount read-only with everything below it */
    bool limits;              /* by control groups; otherwise processes have what limits of the system do */
    bool swap_limit;          /* the kernel counts swap, so that a limit on it can be set */
    bool resolver;            /* bind the host's /etc/resolv.conf, for a container with the host's network */
} OciParams;

/* *ret_json is to be freed. -EINVAL when the profile does not fit this machine, -ENOMEM. */
int oci_spec_make(const OciParams *params, char **ret_json);
