/* Whom the kernel takes when memory runs out. */
#pragma once

#include <sys/types.h>

/* This process first. A user who may not say so goes without, here and below. */
void volunteer_first(void);

/* Not before `other`, as far as that may be said. */
void volunteer_last(pid_t other);
