/* Sweep: what an earlier controller left and nobody has adopted is removed. */
#pragma once

#include "host/sandbox/sandboxes.h"

/* The directories in which supervisors connect. */
void sweep_links(const Sandboxes *all);

/* Containers, then directories that no container has mounted any more. */
void sweep_sandboxes(Sandboxes *all);
