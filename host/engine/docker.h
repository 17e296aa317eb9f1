/* The Docker Engine before it is used: whether it answers, which version is spoken, and what it can enforce.
 */
#pragma once

#include "host/engine/engine.h"

#define DOCKER_REPOSITORY    "limpet" /* of our images */
#define DOCKER_DEFAULT_IMAGE "default"

/* Writes the name of an image as the Docker Engine knows it: ours are tags of DOCKER_REPOSITORY, and named by
 * the tag alone everywhere in Limpet; a name with a colon, slash or at sign is the Docker Engine's own. */
void docker_image_reference(char *ret, size_t size, const char *image);

/* Returns whether something answers on the socket as a Docker Engine does. Blocks for a moment, as all of
 * these. */
bool docker_answers(const EngineConfig *config);

/* Settles the API version, 1.*ret_minor. ENGINE_ERROR in problem when there is no engine, when no version is
 * common to both, or when it could not enforce what a container is promised. */
int docker_connect(const EngineConfig *config, unsigned *ret_minor, Problem *problem);

/* EngineOps.check */
void docker_check(const EngineConfig *config, void (*report)(void *userdata, const EngineFinding *),
                  void *userdata);
