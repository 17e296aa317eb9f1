#include "host/session/epitaph.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "proto/base/clock.h"

void epitaphs_init(Epitaphs *all)
{
    list_init(&all->list);
    all->count = 0;
}

static void forget(Epitaphs *all, const Epitaph *epitaph)
{
    Epitaph *gone = (Epitaph *)epitaph;

    if (!gone)
        return;
    list_remove(&gone->link);
    all->count--;
    free(gone);
}

void epitaphs_deinit(Epitaphs *all)
{
    Epitaph *epitaph;

    list_foreach (epitaph, &all->list, Epitaph, link)
        forget(all, epitaph);
}

const Epitaph *epitaph_find(const Epitaphs *all, uid_t user, Text name)
{
    const Epitaph *epitaph;

    list_foreach (epitaph, &all->list, Epitaph, link)
        if (epitaph->user == user && text_equal(name, epitaph->name))
            return epitaph;
    return NULL;
}

void epitaph_add(Epitaphs *all, const Epitaph *epitaph)
{
    Epitaph *added = malloc(sizeof(*added));

    forget(all, epitaph_find(all, epitaph->user, text_of(epitaph->name)));
    if (!added)
        return;
    *added = *epitaph;
    list_append(&all->list, &added->link);
    if (++all->count > EPITAPHS_MAX)
        forget(all, list_entry(list_first(&all->list), Epitaph, link));
}

void epitaph_forget(Epitaphs *all, uid_t user, Text name)
{
    forget(all, epitaph_find(all, user, name));
}

void epitaph_write(Epitaphs *all, uid_t user, const char *name, const char *instance, const char *reason)
{
    Epitaph epitaph = {.user = user, .time = clock_unix()};

    snprintf(epitaph.name, sizeof(epitaph.name), "%s", name);
    snprintf(epitaph.instance, sizeof(epitaph.instance), "%s", instance);
    snprintf(epitaph.reason, sizeof(epitaph.reason), "%s", reason);
    epitaph_add(all, &epitaph);
}

const Epitaph *epitaph_of(const Epitaphs *all, uid_t user, const char *name, const char *instance)
{
    const Epitaph *epitaph = epitaph_find(all, user, text_of(name));

    return epitaph && strcmp(epitaph->instance, instance) == 0 ? epitaph : NULL;
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
