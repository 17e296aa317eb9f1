/* The controller apart from root's rights, where limpetd has them. */
#pragma once

#include "host/config/paths.h"
#include "host/launcher/launcher.h"

/* Returns whether there is something to keep apart: not where limpetd is no root, nor with an engine that
 * runs as root whatever clients send. */
bool separate_is_due(const Options *options);

/* Keeps root's rights in this process, and serves with another one, as controller_run() has it. */
int separate_run(const Options *options, Paths *paths, void (*ready)(void *userdata), void *userdata,
                 Problem *problem);

/* The two processes that it starts: their main(). */
int separate_controller_main(int argc, char **argv);
int separate_files_main(int argc, char **argv);
