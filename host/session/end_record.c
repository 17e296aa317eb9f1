#include "host/session/end_record.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "proto/base/clock.h"

void end_records_init(EndRecords *all)
{
    list_init(&all->list);
    all->count = 0;
}

static void forget(EndRecords *all, const EndRecord *end_record)
{
    EndRecord *gone = (EndRecord *)end_record;

    if (!gone)
        return;
    list_remove(&gone->link);
    all->count--;
    free(gone);
}

void end_records_deinit(EndRecords *all)
{
    EndRecord *end_record;

    list_foreach (end_record, &all->list, EndRecord, link)
        forget(all, end_record);
}

const EndRecord *end_record_find(const EndRecords *all, uid_t user, Text name)
{
    const EndRecord *end_record;

    list_foreach (end_record, &all->list, EndRecord, link)
        if (end_record->user == user && text_equal(name, end_record->name))
            return end_record;
    return NULL;
}

void end_record_add(EndRecords *all, const EndRecord *end_record)
{
    EndRecord *added = malloc(sizeof(*added));

    forget(all, end_record_find(all, end_record->user, text_of(end_record->name)));
    if (!added)
        return;
    *added = *end_record;
    list_append(&all->list, &added->link);
    if (++all->count > END_RECORDS_MAX)
        forget(all, list_entry(list_first(&all->list), EndRecord, link));
}

void end_record_forget(EndRecords *all, uid_t user, Text name)
{
    forget(all, end_record_find(all, user, name));
}

void end_record_write(EndRecords *all, uid_t user, const char *name, const char *instance, const char *reason)
{
    EndRecord end_record = {.user = user, .time = clock_unix()};

    snprintf(end_record.name, sizeof(end_record.name), "%s", name);
    snprintf(end_record.instance, sizeof(end_record.instance), "%s", instance);
    snprintf(end_record.reason, sizeof(end_record.reason), "%s", reason);
    end_record_add(all, &end_record);
}

const EndRecord *end_record_of(const EndRecords *all, uid_t user, const char *name, const char *instance)
{
    const EndRecord *end_record = end_record_find(all, user, text_of(name));

    return end_record && strcmp(end_record->instance, instance) == 0 ? end_record : NULL;
}

void end_record_words(char ret[static END_RECORD_WORDS], const EndRecord *end_record)
{
    time_t seconds = (time_t)end_record->time;
    char when[32] = "";
    struct tm utc;

    if (gmtime_r(&seconds, &utc))
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &utc);
    snprintf(ret, END_RECORD_WORDS, "ended at %s: %s", when, end_record->reason);
}
