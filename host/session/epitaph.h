/* Epitaph: of a session that ended without being asked to: when and why, for whoever asks for it by its name.
 * The newest EPITAPHS_MAX are kept. */
#pragma once

#include "proto/base/list.h"
#include "proto/limits.h"
#include "proto/wire.h"

#define EPITAPHS_MAX 256u

typedef struct Epitaph {
    List link; /* Epitaphs.list */
    uid_t user;
    char name[LIMIT_SESSION_PATH + 1];
    char instance[17];
    char reason[256];
    double time; /* Unix seconds */
} Epitaph;

typedef struct Epitaphs {
    List list; /* the oldest first */
    size_t count;
} Epitaphs;

void epitaphs_init(Epitaphs *all);
void epitaphs_deinit(Epitaphs *all);

/* Forgets the epitaph of that name. */
void epitaph_forget(Epitaphs *all, uid_t user, Text name);
/* The session ends now. */
void epitaph_write(Epitaphs *all, uid_t user, const char *name, const char *instance, const char *reason);

/* Adds an epitaph that an earlier controller kept; without memory it is lost. */
void epitaph_add(Epitaphs *all, const Epitaph *epitaph);

/* Returns the epitaph of the user's last session that had that name and is gone; NULL when it was closed by a
 * client, or there is none. */
const Epitaph *epitaph_find(const Epitaphs *all, uid_t user, Text name);
/* Returns the epitaph of this life of a session, or NULL. */
const Epitaph *epitaph_of(const Epitaphs *all, uid_t user, const char *name, const char *instance);

/* "ended at ...: why" */
#define EPITAPH_WORDS 320
void epitaph_words(char ret[static EPITAPH_WORDS], const Epitaph *epitaph);
