/* From the seccomp profile as Docker takes it to the one of the OCI runtime specification, which knows no
 * conditions: the rules that hold for one machine and one set of capabilities are what is left. */
#pragma once

#include <jansson.h>

/* `profile` in Docker's format; `architecture` as Docker names it; `capabilities` an array of "CAP_..." that
 * the container has. *ret is a new reference. -EINVAL for a profile with a part this does not know or without
 * the architecture: what is not understood must not be left out silently. */
int seccomp_to_oci(const json_t *profile, const char *architecture, const json_t *capabilities, json_t **ret);
