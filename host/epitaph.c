#include "host/epitaph.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "host/adopt.h"
#include "proto/base/clock.h"

void epitaphs_init(Controller *controller)
{
    list_init(&controller->epitaphs);
    controller->epitaph_count = 0;
}

static void forget(Controller *controller, const Epitaph *epitaph)
{
    Epitaph *gone = (Epitaph *)epitaph;

    if (!gone)
        return;
    list_remove(&gone->link);
    controller->epitaph_count--;
    free(gone);
}

void epitaphs_deinit(Controller *controller)
{
    Epitaph *epitaph;

    list_foreach (epitaph, &controller->epitaphs, Epitaph, link)
        forget(controller, epitaph);
}

const Epitaph *epitaph_find(const Controller *controller, Text name)
{
    const Epitaph *epitaph;

    list_foreach (epitaph, &controller->epitaphs, Epitaph, link)
        if (text_equal(name, epitaph->name))
            return epitaph;
    return NULL;
}

void epitaph_add(Controller *controller, const Epitaph *epitaph)
{
    Epitaph *added = malloc(sizeof(*added));

    forget(controller, epitaph_find(controller, (Text){epitaph->name, strlen(epitaph->name)}));
    if (!added)
        return;
    *added = *epitaph;
    list_append(&controller->epitaphs, &added->link);
    if (++controller->epitaph_count > EPITAPHS_MAX)
        forget(controller, list_entry(list_first(&controller->epitaphs), Epitaph, link));
}

/* With the trunk its branches are closed, too. */
static bool was_asked_to(const Session *session)
{
    return !list_empty(&session->closers) || !list_empty(&session->sandbox->trunk->closers);
}

/* Clients know its name. */
static bool was_open(const Session *session)
{
    const Adoption *adoption = session->sandbox->adoption;

    return session->announced && session->name[0] != *PRIVATE_MARK && (!adoption || adoption->open);
}

void epitaph_note(const Session *session, const char *reason)
{
    Controller *controller = session->controller;
    Epitaph epitaph = {.time = clock_unix()};

    forget(controller, epitaph_find(controller, (Text){session->name, strlen(session->name)}));
    if (was_asked_to(session) || !was_open(session))
        return;
    snprintf(epitaph.name, sizeof(epitaph.name), "%s", session->name);
    snprintf(epitaph.instance, sizeof(epitaph.instance), "%s", session->instance);
    snprintf(epitaph.reason, sizeof(epitaph.reason), "%s", reason);
    epitaph_add(controller, &epitaph);
}

void epitaph_words(char ret[static EPITAPH_WORDS], const Epitaph *epitaph)
{
    time_t seconds = (time_t)epitaph->time;
    char when[32] = "";
    struct tm utc;

    if (gmtime_r(&seconds, &utc))
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &utc);
    snprintf(ret, EPITAPH_WORDS, "ended at %s: %s", when, epitaph->reason);
}
