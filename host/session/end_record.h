/* EndRecord: one of a session that ended without being asked to: when and why, for whoever asks for it by its
 * name. The newest END_RECORDS_MAX are kept. */
#pragma once

#include "proto/base/list.h"
#include "proto/limits.h"
#include "proto/wire.h"

#define END_RECORDS_MAX 256u

typedef struct EndRecord {
    List link; /* EndRecords.list */
    uid_t user;
    char name[LIMIT_SESSION_PATH + 1];
    char instance[17];
    char reason[256];
    double time; /* Unix seconds */
} EndRecord;

typedef struct EndRecords {
    List list; /* the oldest first */
    size_t count;
} EndRecords;

void end_records_init(EndRecords *all);
void end_records_deinit(EndRecords *all);

/* Forgets the end record of that name. */
void end_record_forget(EndRecords *all, uid_t user, Text name);
/* The session ends now. */
void end_record_write(EndRecords *all, uid_t user, const char *name, const char *instance,
                      const char *reason);

/* Adds a record that an earlier controller kept; without memory it is lost. */
void end_record_add(EndRecords *all, const EndRecord *end_record);

/* Returns the end record of the user's last session that had that name and is gone; NULL when it was closed
 * by a client, or there is none. */
const EndRecord *end_record_find(const EndRecords *all, uid_t user, Text name);
/* Returns the end record of this life of a session, or NULL. */
const EndRecord *end_record_of(const EndRecords *all, uid_t user, const char *name, const char *instance);

/* "ended at ...: why" */
#define END_RECORD_WORDS 320
void end_record_words(char ret[static END_RECORD_WORDS], const EndRecord *end_record);
