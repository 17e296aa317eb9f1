/* Places where the controller keeps things, and the lock that makes it the only one to do so. */
#pragma once

#include <sys/types.h>

#include "host/config/options.h"

/* No group admits anybody. */
#define NO_GROUP ((gid_t)-1)

typedef struct Paths {
    uid_t user;        /* user of the controller, as the machine knows it */
    bool inside;       /* of a user namespace, where it is root */
    gid_t group;       /* members may use it, too: root's only; or NO_GROUP */
    char *state_dir;   /* absolute; 0700, or 0710 for the group, as are sessions and outputs in it */
    char *runtime_dir; /* absolute, 0700: this controller's part of the runtime directory */
    char *journals, *ended, *templates, *images, *links; /* in these two, as this process reaches them */
    char *socket;                                        /* where clients connect */
    char *authorized_keys;                               /* of clients on other machines */
    char *guest;                                         /* the limpet-guest program for the local engine */
    char owner[17];                                      /* names this state directory on container labels */
    int lock;                                            /* held as long as the controller lives */
    pid_t pid; /* holder of the lock, by which others know this controller */
} Paths;

#define PATHS_NULL ((Paths){.group = NO_GROUP, .lock = -1})

/* Works out the directories and makes them. The options then name them absolutely. */
int paths_init(Paths *paths, Options *options, Problem *problem);
void paths_deinit(Paths *paths);

/* Takes the state directory for this process. 0; -EWOULDBLOCK when another controller holds it, and problem
 * says which one. */
int paths_lock(Paths *paths, Problem *problem);
