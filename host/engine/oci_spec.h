/* The config.json of one container for an OCI runtime, from the profile and what is asked for. */
#pragma once

#include <jansson.h>

#include "host/engine/engine.h"

/* From the seccomp profile as Docker takes it to the one of the OCI runtime specification, which knows no
 * conditions: the rules that hold for one machine and one set of capabilities are left. `profile` is in
 * Docker's format; `architecture` as Docker names it; `capabilities` an array of "CAP_..." that the container
 * has. *ret is a new reference. -EINVAL for a profile with a part this does not know or without the
 * architecture: what is not understood must not be left out silently. */
int seccomp_to_oci(const json_t *profile, const char *architecture, const json_t *capabilities, json_t **ret);

/* Refuses a host on which a crash in a container would start a program: the limit that prevents it,
 * RLIMIT_CORE of 1, cannot be set. */
int rlimits_check(Problem *problem);

typedef struct OciParams {
    const ContainerSpec *spec;
    const char *rootfs;       /* absolute */
    const char *data_dir;     /* "": none */
    const char *view;         /* directory (view.h); "": none */
    bool userns;              /* with a user namespace of its own */
    const char *cgroup;       /* cgroupsPath */
    const char *architecture; /* as Docker names it */
    bool recursive_readonly;  /* the runtime can make a mount read-only with everything below it */
    bool swap_limit;          /* the kernel counts swap, so that a limit on it can be set */
    bool resolver;            /* bind the host's /etc/resolv.conf, for a container with the host's network */
} OciParams;

/* *ret_json is to be freed. -EINVAL when the profile does not fit this machine, -ENOMEM. */
int oci_spec_make(const OciParams *params, char **ret_json);
