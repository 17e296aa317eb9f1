/* Shared by the files of a sandbox, and included by nobody else. */
#pragma once

#include "host/sandbox/sandbox.h"

/* EngineOps.create or EngineOps.adopt. */
typedef int ContainerGetter(Engine *engine, const ContainerSpec *spec, const ContainerEvents *events,
                            void *userdata, Container **ret, Problem *problem);

/* sandbox.c */
/* In the list of all. `options` is taken over. NULL when out of memory. */
Sandbox *sandbox_new(Sandboxes *all, SandboxState state, bool ephemeral, SessionOptions *options,
                     const SandboxOwner *owner, void *userdata);
void sandbox_become(Sandbox *sandbox, SandboxState state); /* only here a state changes */
void sandbox_become_ready(Sandbox *sandbox);               /* when it waits for nothing more */
void sandbox_end(Sandbox *sandbox);                        /* no container is left of it */
/* Files of one that has a container, or that is PARKED, cannot be had. */
void sandbox_files_amiss(Sandbox *sandbox, const Problem *failure);
extern const GuestEvents sandbox_guest_events;

/* parking.c */
void sandbox_parked(Sandbox *sandbox); /* no container is left of it, and its files stay */
/* Makes it SAVING, for so long at most. */
void sandbox_begin_saving(Sandbox *sandbox, double seconds);
static inline bool sandbox_is_saving(const Sandbox *sandbox)
{
    return sandbox->state == SANDBOX_SAVING || sandbox->state == SANDBOX_RETURNING;
}

/* container.c */
/* Makes where its supervisor connects, for a sandbox with that directory. */
int sandbox_make_link(Sandbox *sandbox, const char *id, Problem *problem);
#define PUBLISHED_ID_SIZE (LIMIT_SESSION_NAME + 16)
/* Files of a sandbox that publishes as `name` of its user, without a directory; `published` is the spec's. */
FilesSpec sandbox_files_spec(const Sandbox *sandbox, const char *name,
                             char published[static PUBLISHED_ID_SIZE]);
/* FilesDone: they are there, or cannot be had. */
void sandbox_on_files(void *userdata, const Problem *failure);
/* Limits the time until it is READY, or SPARE. */
void sandbox_wait_for_start(Sandbox *sandbox);

/* Serves the network that these options allow, under that name; does nothing when they allow nothing and
 * nothing was served. 0, or negative with the problem set. */
int sandbox_serve_network(Sandbox *sandbox, const char *name, const SessionOptions *options,
                          Problem *problem);
bool sandbox_is_proxied(const Sandbox *sandbox);

/* Begins to make places and container; freed on failure. */
int sandbox_begin(Sandbox *sandbox, const char *output_id, Problem *problem);
void sandbox_set_container_name(Sandbox *sandbox);
/* Has the engine make or adopt it, and waits for that. As these; `data` as in ContainerSpec. */
int sandbox_get_container(Sandbox *sandbox, ContainerGetter *get, int data, Problem *problem);
/* Makes another one of a STARTING sandbox whose own cannot be used for that reason, if that is of use. */
void sandbox_make_anew(Sandbox *sandbox, const Problem *problem);
/* MemoryImages.opened */
void sandboxes_image_opened(void *userdata, const MemoryImage *image);
/* A new one, once its data directory and its memory image are open. */
int sandbox_create_container(Sandbox *sandbox, Problem *problem);
/* The second half of closing or parking it; sandbox_end or sandbox_parked follows. */
void sandbox_remove_container(Sandbox *sandbox);

/* guest_request.c */
GuestRequest *sandbox_find_sent(const Sandbox *sandbox,
                                uint64_t number); /* by its message; NULL when unknown */
/* The answers to those that were sent before the message of that number do not come any more, but for those
 * that `hello` tells of. */
void sandbox_cut_off_requests(Sandbox *sandbox, uint64_t number, const GuestHello *hello);
void sandbox_end_all_requests(Sandbox *sandbox, const char *reason);
void sandbox_leave_requests(Sandbox *sandbox);
void sandbox_send_queries(Sandbox *sandbox); /* those that may be */
void sandbox_fail_queries(Sandbox *sandbox, ErrorCode code, const char *text);

/* Begins what waits. */
void sandbox_resume(Sandbox *sandbox);
