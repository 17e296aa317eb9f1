/* Templates: what sessions begin from, by LimpetOptions.template. A part of limpet.h, which includes it. */
#ifndef LIMPET_TEMPLATES_H
#define LIMPET_TEMPLATES_H

#include "limpet.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct LimpetTemplate {
    const char *name;
    uint64_t user;          /* uid of whose it is: the caller's, or the controller's */
    const char *image;      /* NULL: the default */
    const char *const *env; /* names of the variables that it sets */
    size_t n_env;
    bool has_files, has_setup;
    uint64_t files; /* bytes that its files take */
    uint64_t setup; /* bytes of its code */
    double created;
} LimpetTemplate;

typedef struct LimpetTemplates {
    const LimpetTemplate *templates;
    size_t n_templates;
} LimpetTemplates;

/* Contents of a template; a member that is NULL is not given. */
typedef struct LimpetTemplateSource {
    const char *name;
    const char *session;    /* source of /session, and of image and env where none are given */
    const char *image;      /* of its sessions */
    const char *const *env; /* "NAME=value" strings, then NULL */
    const char *setup;      /* Python code that has run in each of its sessions */
    bool replace;           /* a template of that name, if there is one */
} LimpetTemplateSource;

/* Makes a template and tries it once: returns when a sandbox of it is ready. LIMPET_TEMPLATE_FAILED when its
 * code does not end well; *traceback (may be NULL) is then that of the code, to be freed with free(), and is
 * NULL otherwise. */
LIMPET_API int limpet_template(LimpetClient *client, const LimpetTemplateSource *source, char **traceback);

/* The caller's templates, and those of the controller's user. */
LIMPET_API int limpet_templates(LimpetClient *client, LimpetTemplates **ret);
LIMPET_API void limpet_templates_free(LimpetTemplates *templates);
/* As `limpet template ls --json` prints them, to be freed with free(); NULL when out of memory. */
LIMPET_API char *limpet_templates_json(const LimpetTemplates *templates);

/* Sessions that began from it stay as they are. */
LIMPET_API int limpet_remove_template(LimpetClient *client, const char *name);

#ifdef __cplusplus
}
#endif

#endif
