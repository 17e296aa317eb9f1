/* Scheduling of the controller's loop. Where cells keep every processor busy, a call that is ready waits for
 * the loop: it comes before them. Bound to one processor it would wait for whatever runs there while another
 * one is free, so it is only bound where somebody has set one aside. */
#pragma once

#include "proto/base/problem.h"

/* Raises the priority of the calling thread where that is allowed; threads it starts inherit it. `core` is
 * "auto", the number of a processor that it binds the thread to as well, which is refused when it is not one
 * of those this process may use, or "off", upon which nothing is done. Before any other thread is started. */
int scheduling_claim(const char *core, Problem *problem);
