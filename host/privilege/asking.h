/* Questions to the launcher, from the processes that it has begun. */
#pragma once

#include "host/privilege/rpc.h"
#include "host/privilege/seam.h"
#include "proto/base/problem.h"

/* Asks and waits; a descriptor goes along unless it is -1. 0 with the answer, which is the caller's to deinit
 * either way, or a negative errno with the problem set. Without a launcher it does not return. */
int launcher_ask(const Rpc *launcher, SeamKind kind, const Schema *schema, const void *body, int descriptor,
                 RpcAnswer *ret, Problem *problem);

/* Ends this process, and the controller with it, as a crash of it would: sessions live on, whoever comes next
 * adopts them and does again what was asked for, and no session is told of a failure. At once, because what
 * is done next relies on what was asked for. An RpcEvents.lost; which connection it was does not matter. */
_Noreturn void launcher_lost(Rpc *launcher, int error);
