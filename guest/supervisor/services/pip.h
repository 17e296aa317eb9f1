/* pip: a socket of the sandbox at which the program of that name asks for packages. What it writes until it
 * closes its half is a requirements file, which the controller gets; what it reads is what it prints, then
 * '\0' and how it ends: "0" or "1". Any process of the sandbox may ask, and lie: the controller decides. */
#pragma once

#include "guest/supervisor/link/link.h"

#define PIP_ASKS_MAX 16 /* at once; further ones wait */

typedef struct Pip {
    Loop *loop;
    Link *link;
    LoopFile listener;
    List asks;
    size_t count;
    uint64_t last; /* number of an ask */
    char path[108];
} Pip;

/* Initializes the listener; `loop` and `link` outlive it. Where there can be no socket nobody can ask. */
void pip_init(Pip *pip, Loop *loop, Link *link);
void pip_deinit(Pip *pip);

/* An `install` of the controller. -EPROTO with a Problem: it is refused. */
int pip_told(Pip *pip, const Message *message, Problem *problem);

/* The session can be asked for, with this controller: what was not answered is asked again, which does no
 * harm. */
void pip_on_controller(Pip *pip);
void pip_on_controller_lost(Pip *pip);
