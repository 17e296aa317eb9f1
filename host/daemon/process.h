/* The process of the controller, as those see it that start it and the kernel that runs it. */
#pragma once

#include "host/config/paths.h"
#include "proto/base/problem.h"

/* ---- in the background ----
 *
 * Serving in the background, the way tmux starts its server: the caller's process returns once clients can
 * connect, or with the words of what went wrong. */

/* Forks. In the parent it returns the exit status (0 when the socket answers; words on stderr otherwise); in
 * the child -1, with *ret_report to give to detach_report. */
int detach(const Paths *paths, int *ret_report);

/* In the child: NULL says that clients can connect, text says why not. Closes the descriptor. */
void detach_report(int *report, const char *text);

/* ---- as a service of systemd ----
 *
 * The controller as a service of systemd: where its unit is enabled, nobody else starts a controller in its
 * place. */

/* Starts the enabled unit whose controller has these paths. Returns the exit status of `limpetd --detach`,
 * with words on stderr unless it is 0; -1 where there is no such unit. */
int service_start(const Paths *paths);

/* ---- telling the service manager ----
 *
 * Messages to the service manager that started this process. */

/* Tells once that clients are served, by sd_notify(3)'s protocol. Does nothing where NOTIFY_SOCKET asks for
 * nothing. */
void notify_ready(void);

/* ---- scheduling ----
 *
 * Scheduling of the controller's loop. Where cells keep every processor busy, a call that is ready waits for
 * the loop: it comes before them. Bound to one processor it would wait for whatever runs there while another
 * one is free, so it is only bound where somebody has set one aside. */

/* Raises the priority of the calling thread where that is allowed; threads it starts inherit it. `core` is
 * "auto", the number of a processor that it binds the thread to as well, which is refused when it is not one
 * of those this process may use, or "off", upon which nothing is done. Before any other thread is started. */
int scheduling_claim(const char *core, Problem *problem);
