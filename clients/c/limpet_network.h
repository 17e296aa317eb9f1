/* Network of a session. A part of limpet.h, which includes it. */
#ifndef LIMPET_NETWORK_H
#define LIMPET_NETWORK_H

#include "limpet.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A name of the session's network, http://NAME.limpet/, behind which the host adds headers. */
typedef struct LimpetBinding {
    const char *name;
    const char *url;            /* "https://host/path" */
    const char *const *headers; /* "Name: value" strings, then NULL; or NULL */
} LimpetBinding;

typedef struct LimpetNetwork {
    const char *const *allow;
    size_t n_allow;
    const LimpetBinding *bindings; /* without headers, which nobody is told */
    size_t n_bindings;
} LimpetNetwork;

/* Changes what a session may reach of the network, at once; what is NULL stays as it is. *ret (may be NULL):
 * as it is then. */
LIMPET_API int limpet_set_network(LimpetClient *client, const char *session, const char *const *allow,
                                  const LimpetBinding *bindings, LimpetNetwork **ret);
LIMPET_API void limpet_network_free(LimpetNetwork *network);
/* As `limpet network --json` prints it, to be freed with free(); NULL when out of memory. */
LIMPET_API char *limpet_network_json(const LimpetNetwork *network);

#ifdef __cplusplus
}
#endif

#endif
