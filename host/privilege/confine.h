/* Giving up rights, for good, by a process that root has forked for one purpose. */
#pragma once

#include <sys/types.h>

#include "proto/base/problem.h"

typedef struct Account {
    uid_t uid;
    gid_t gid;
} Account;

/* The account of that name. The standard ones need not be there: their fixed uids are taken then. 0, or
 * negative with the problem set: there is none, or it has more rights than it may. */
int account_find(const char *name, Account *ret, Problem *problem);

#define PLACES_MAX 16u

typedef struct Confinement {
    Account account;
    bool keeps_account;    /* an account that has no more rights than anybody */
    bool dials;            /* connects to others, also to those on other machines */
    uint64_t capabilities; /* a bit for each of linux/capability.h */
    /* Below what it may read, and read, write, make and remove; the lists end with NULL. What is not there is
     * passed over. Nothing may be executed. */
    const char *readable[PLACES_MAX], *writable[PLACES_MAX];
} Confinement;

/* Leaves this process nothing but that, and dead when its parent is, which is to be `parent`. Before there
 * are threads. 0, or negative with the problem set: the process is to end. */
int rights_drop(const Confinement *rights, pid_t parent, Problem *problem);

/* Part of rights_drop(): refuses system calls that nobody needs who serves sockets and files, or one that
 * `dials`. 0 or a negative errno. */
int filter_install(bool dials);

/* Returns whether the kernel can confine so. */
bool landlock_supported(void);
