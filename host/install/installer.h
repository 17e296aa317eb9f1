/* Installer: a container of its own in which pip runs, for one list of requirements. Its network reaches the
 * package index alone, and it sees nothing of the session: at most the packages that it has already, to which
 * new ones are added. What it leaves is hostile: the file service takes it, and names it by what is in it. */
#pragma once

#include "host/sandbox/sandbox.h"

typedef struct Installer Installer;

/* Work that an installer is to do. */
typedef struct InstallerOrder {
    const char *request; /* hashed: what the store knows it by */
    const char *image;   /* of the session */
    const char *before;  /* the set that the session has, "" for none */
    Text requirements;
    bool fresh;  /* nothing can have been imported in the session */
    bool builds; /* packages without a wheel are built: their code runs in the installer */
} InstallerOrder;

typedef struct InstallerEvents {
    /* A piece of what it writes, and the same as the body of an `output` message. */
    void (*output)(Installer *installer, const MsgOutput *output, Text body);
    /* Its packages are in the store, or it failed, and `log` is what it wrote. Once. */
    void (*stored)(Installer *installer, const char *name, Text lock);
    void (*failed)(Installer *installer, const Problem *problem, Text log);
    /* There is no container of it any more, and it has said one of these: it is freed. */
    void (*gone)(Installer *installer);
} InstallerEvents;

struct Installer {
    List link; /* its owner's */
    Sandboxes *sandboxes;
    const InstallerEvents *events;
    void *userdata; /* of whoever handles the events */
    Sandbox *sandbox;
    GuestRequest to_guest; /* pip */
    char request[PACKAGES_NAME_SIZE], before[PACKAGES_NAME_SIZE];
    bool fresh, builds;
    Buf input;   /* of the program: the requirements, and certificates */
    bool told;   /* stored, or failed */
    bool taking; /* the file service is asked */
    bool gone;
};

/* Begins one. Nobody is told anything before it returns. 0, or negative with the problem set. */
int installer_begin(Installer **ret, Sandboxes *sandboxes, const InstallerOrder *order,
                    const InstallerEvents *events, void *userdata, Problem *problem);

/* Nobody waits for it any more: nothing but `gone` is told. */
void installer_stop(Installer *installer);
