/* Template: what a session may begin from: files, an environment, and code that has run. It never changes;
 * another version of that name is another Template. */
#pragma once

#include <sys/types.h>

#include "proto/base/list.h"
#include "proto/schema.h"

#define TEMPLATE_ID_SIZE 17

typedef struct Template {
    List link; /* Templates.all */
    unsigned references;
    uid_t user; /* owner */
    char name[LIMIT_SESSION_NAME + 1];
    char id[TEMPLATE_ID_SIZE]; /* random digits: names this version, and the directory of its files */
    char *image;               /* "": the default */
    Buf env;                   /* an encoded map of text to text */
    char *setup;               /* NULL: none */
    char *packages;            /* the set of packages that its sessions have; NULL: none */
    uint64_t files;            /* bytes; NO_UINT: it has none */
    double created;            /* Unix seconds */
} Template;

/* Makes a template that nobody can find yet, without files and packages. `image`, `env` and `setup` may be
 * absent. 0, or negative with the problem set. */
int template_new(Template **ret, uid_t user, Text name, Text image, const Buf *env, Text setup,
                 Problem *problem);

Template *template_ref(Template *tmpl);
/* Frees it when nobody else has it. Its files stay. NULL. */
Template *template_unref(Template *tmpl);
DEFINE_CLEANUP(Template *, template_unref);

/* As clients are told; `names` holds what it points to. */
typedef struct TemplateNames {
    Buf encoded;
} TemplateNames;
MsgTemplate template_to_wire(const Template *tmpl, TemplateNames *names);
void template_names_deinit(TemplateNames *names);

/* The environment of a session of it: its own, and what `given` (may be NULL) has wins. An encoded map. 0 or
 * -ENOMEM. */
int template_env(Buf *ret, const Template *tmpl, const msgpack_object_map *given);
