/* Epitaph: of a session that ended without being asked to: when and why, for whoever asks for it by its name.
 * The newest EPITAPHS_MAX are kept; in the files of journal_ended.h, for the next controller, as long as
 * these. */
#pragma once

#include "host/controller.h"
#include "host/session.h"

#define EPITAPHS_MAX 256u

typedef struct Epitaph {
    List link; /* Controller.epitaphs */
    char name[LIMIT_SESSION_PATH + 1];
    char instance[17];
    char reason[256];
    double time; /* Unix seconds */
} Epitaph;

void epitaphs_init(Controller *controller);
void epitaphs_deinit(Controller *controller);

/* The session begins to end. What is known of an earlier one of that name is forgotten. */
void epitaph_note(const Session *session, const char *reason);

/* One that an earlier controller kept; without memory it is not known. */
void epitaph_add(Controller *controller, const Epitaph *epitaph);

/* Of the last session that had that name and is gone; NULL when it was closed by a client, or there is none.
 */
const Epitaph *epitaph_find(const Controller *controller, Text name);

/* "ended at ...: why" */
#define EPITAPH_WORDS 320
void epitaph_words(char ret[static EPITAPH_WORDS], const Epitaph *epitaph);
