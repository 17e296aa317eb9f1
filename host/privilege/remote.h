/* Remote: the launcher as the controller sees it: an engine whose containers are in the launcher's hands, and
 * the maker of disks. */
#pragma once

#include "host/engine/engine.h"
#include "host/ipc/ipc.h"

typedef struct Remote Remote;

/* Begins over the socket, which is the Remote's from now on. `engine` is the name of what an earlier
 * controller had, or "". Waits for the launcher, which looks the host over. 0, or negative with the problem
 * set. From here on the launcher makes the disks of this process. */
int remote_open(Remote **ret, Loop *loop, int socket, const EngineConfig *config, const char *engine,
                Problem *problem);

/* Returns the engine that EngineOps.open would have given; closed by its own `close`, and the Remote with
 * it. */
Engine *remote_engine(Remote *remote);

/* The socket that clients connect to, the caller's from now on; once. */
int remote_take_clients(Remote *remote);

/* NULL where sessions have disks, or why they have not. */
const char *remote_no_disks(const Remote *remote);

/* Has the egress process started, with its end of what leads to it, and does not wait: that is closed where
 * it cannot be. A HelperProcessStarter. */
int remote_start_egress(Remote *remote, int socket);

/* Likewise the process that holds the network. */
int remote_start_net(Remote *remote, int socket);

/* Takes the descriptor of the keys that are let in, the caller's from now on; once. -1: no network is
 * listened on. */
int remote_take_keys(Remote *remote);

/* Other keys are let in from then on; the descriptor is whose is told. */
void remote_on_keys(Remote *remote, void (*changed)(void *userdata, int keys), void *userdata);

/* The launcher opens directories for users who are connected: `client_of` names a connection of one, or -1.
 */
void remote_on_open(Remote *remote, int (*client_of)(void *userdata, uid_t user), void *userdata);

/* Standard error is another file from then on. */
void remote_on_log(Remote *remote, void (*moved)(void *userdata), void *userdata);

/* Says that this controller serves. */
void remote_ready(Remote *remote);

/* Says over the socket why there is going to be no controller. At any time; does not wait. */
void remote_unable(int socket, const Problem *problem);
