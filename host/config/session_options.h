/* Options of a session: those of `open` (proto/session_options.def), their checks and defaults. */
#pragma once

#include "host/config/options.h"
#include "proto/schema.h"

typedef double SessionSECONDS;
typedef double SessionNUMBER;
typedef uint64_t SessionCOUNT;
typedef uint64_t SessionSIZE;   /* bytes */
typedef char *SessionCHOICE;    /* one of those that its argument lists */
typedef char *SessionTEXT;      /* "" of the image: the engine's default */
typedef char *SessionDIRECTORY; /* canonical host path, or NULL */
typedef Buf SessionPAIRS;       /* an encoded map of text to text */
typedef Buf SessionLIST;        /* an encoded array of text */
typedef Buf SessionBINDINGS;    /* an encoded map of MsgBinding */

/* As they hold for a session; owns its strings. */
typedef struct SessionOptions {
#define SESSION_OPTION(name, kind, ...) Session##kind name;
#include "proto/session_options.def"
} SessionOptions;

enum {
    SESSION_OPTION_COUNT = 0
#define SESSION_OPTION(...) +1
#include "proto/session_options.def"
};

/* Fills what was not given from the controller's options, and refuses what cannot be. A directory is given by
 * its canonical path here and below. */
int session_options_settle(SessionOptions *ret, const MsgOptions *given, const Options *defaults,
                           Problem *problem);
/* From what session_options_to_wire() returned, whatever the controller's options are by now. An earlier
 * version may have said less: a number that is missing is then its option's `most`. */
int session_options_read(SessionOptions *ret, const msgpack_object_map *map, Problem *problem);
void session_options_deinit(SessionOptions *options);

/* The names of given options that differ from how the session is; returns how many. */
size_t session_options_differ(const SessionOptions *options, const MsgOptions *given,
                              const char *ret[static SESSION_OPTION_COUNT]);

/* Copies the options that the container is made with, and for the rest those that ask least of it. 0 or
 * -ENOMEM. */
int session_options_copy_container(SessionOptions *ret, const SessionOptions *from);
bool session_options_same_container(const SessionOptions *a, const SessionOptions *b);

/* For the journal; points into `options`. */
MsgOptions session_options_to_wire(const SessionOptions *options);
/* For clients, without what is secret; likewise. */
MsgOptions session_options_to_wire_public(const SessionOptions *options);

/* Returns whether `allow` or `bindings` let the session reach anything. */
bool session_options_reach(const SessionOptions *options);
/* Returns whether a limpet-egress on another machine does that, to which all of it is relayed. */
bool session_options_relay(const SessionOptions *options);
/* Makes the `allow` and `bindings` of a change: those given, else those of `options`; ret has nothing else.
 * session_options_take_network() follows, also after a failure: negative with the problem set. */
int session_options_change_network(SessionOptions *ret, const SessionOptions *options,
                                   const MsgSetNetwork *given, Problem *problem);
/* Ends a change: `options` take it over, or stay as they are. */
void session_options_take_network(SessionOptions *options, SessionOptions *changed, bool take);
