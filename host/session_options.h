/* What a session may be asked to be: the options of `open`, their checks and defaults. */
#pragma once

#include "host/options.h"
#include "proto/wire.h"

#define SESSION_OPTION_COUNT 12

/* As a client gave them; what it did not give is NAN, UINT64_MAX or NULL. Points into itself: not to be
 * copied. */
typedef struct OptionsGiven {
    double timeout;
    uint64_t memory;
    double cpus;
    uint64_t pids;
    uint64_t disk;
    uint64_t files;
    Text data;
    const msgpack_object_map *env;
    double ttl;
    Text network;
    Text image;
    Text checkpoint;
    msgpack_object_kv pairs[SESSION_OPTION_COUNT + 1]; /* what `env` points into */
} OptionsGiven;

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

/* Decodes the options in `body`; keys that are in `ignore` (NULL-terminated) are someone else's. */
int options_given_decode(OptionsGiven *ret, const msgpack_object_map *body, const char *const *ignore,
                         Problem *problem);

/* Fills what was not given from the controller's options, and refuses what cannot be. */
int session_options_settle(SessionOptions *ret, const OptionsGiven *given, const Options *defaults,
                           Problem *problem);
/* From what session_options_write wrote, whatever the controller's options are by now. */
int session_options_read(SessionOptions *ret, const msgpack_object_map *map, Problem *problem);
void session_options_deinit(SessionOptions *options);

/* The names of given options that differ from how the session is; returns how many. */
size_t session_options_differ(const SessionOptions *options, const OptionsGiven *given,
                              const char *ret[static SESSION_OPTION_COUNT]);

/* Writes them as a map. */
void session_options_write(Writer *w, const SessionOptions *options);
