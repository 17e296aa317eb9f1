/* What a session may be asked to be: the options of `open`, their checks and defaults. */
#pragma once

#include "host/options.h"
#include "proto/schema.h"

#define SESSION_OPTION_COUNT 12

/* As they hold for a session; owns its strings. */
typedef struct SessionOptions {
    double timeout;  /* seconds */
    uint64_t memory; /* bytes */
    double cpus;
    uint64_t pids;
    uint64_t disk;  /* bytes of /session */
    uint64_t files; /* that may be there */
    char *data;     /* canonical host path, or NULL */
    Buf env;        /* an encoded map of text to text */
    double ttl;     /* seconds; 0: never ends for being idle */
    char *network;
    char *image;      /* "" is the engine's default */
    char *checkpoint; /* auto, always or off */
} SessionOptions;

/* Decodes the body of `open`: the name in it, which may be absent, and the options. */
int options_given_decode(MsgOptions *ret, Text *ret_session, const msgpack_object_map *body,
                         Problem *problem);

/* Fills what was not given from the controller's options, and refuses what cannot be. */
int session_options_settle(SessionOptions *ret, const MsgOptions *given, const Options *defaults,
                           Problem *problem);
/* From what session_options_say() said, whatever the controller's options are by now. */
int session_options_read(SessionOptions *ret, const msgpack_object_map *map, Problem *problem);
void session_options_deinit(SessionOptions *options);

/* The names of given options that differ from how the session is; returns how many. */
size_t session_options_differ(const SessionOptions *options, const MsgOptions *given,
                              const char *ret[static SESSION_OPTION_COUNT]);

/* As clients and the journal are told; points into `options`. */
MsgOptions session_options_say(const SessionOptions *options);
