/* The hardening profile: JSON files compiled into the program, and the few values worked out from a
 * container's limits. */
#pragma once

#include <jansson.h>

#include "proto/base/base.h"

extern const char profile_docker[];  /* body of the Docker Engine's container create */
extern const char profile_oci[];     /* an OCI runtime's config.json */
extern const char profile_seccomp[]; /* system calls, in Docker's format */

/* A new reference to what is in one of the strings above; NULL when out of memory. */
json_t *profile_load(const char *text);

/* Bytes for /dev/shm. What is in it counts as memory of the container, so it stays well below its limit: a
 * full one must say "no space left", not get something killed. */
uint64_t profile_shm_size(uint64_t memory);

/* Sets the soft and the hard value of the limit called `name`, which `key` says, in an array of limits: of
 * Docker's or an OCI runtime's form. 0 as a value leaves it as it is. */
int profile_set_limit(json_t *limits, const char *key, const char *name, uint64_t value);

/* Threads for numerical libraries, which otherwise start one for every processor of the host. */
unsigned profile_threads(double cpus);

/* Writes that number as a variable, which the supervisor takes the others from: OMP_NUM_THREADS=N. */
void profile_threads_text(char *ret, size_t size, double cpus);

/* Appends the variables that depend on the limits to the array `env`. */
int profile_add_env(json_t *env, double cpus);

/* The machine's name as Docker has it ("amd64", "arm64"); "" for one the profile does not know. */
const char *profile_architecture(void);
