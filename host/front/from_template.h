/* Sessions that begin from a template: what that adds to their options, and the wait for a spare of it. */
#pragma once

#include "host/front/front.h"

typedef struct FromTemplate {
    Template *template; /* NULL: the session is of none */
    Buf env;            /* memory of these options */
    msgpack_unpacked pairs;
} FromTemplate;

/* Finds the template that the options name, if they name one, and adds what it has where they say nothing.
 * Answers the request and returns false when there is none of that name. */
bool from_template_find(FromTemplate *ret, const Front *front, Request *request, MsgOptions *options);
/* The same of a session that is there, for what differs. A template that is gone adds nothing. */
void from_template_compare(FromTemplate *ret, const Front *front, const Request *request,
                           MsgOptions *options);
void from_template_deinit(FromTemplate *from);

/* The request is handled again when a spare is ready, and fails when none can be had. */
void from_template_wait(Front *front, Request *request, const msgpack_object_map *body,
                        const FromTemplate *from, const SessionOptions *options, bool ephemeral);
