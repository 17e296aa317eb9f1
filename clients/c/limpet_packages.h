/* Packages of a session that runs. A part of limpet.h, which includes it. */
#ifndef LIMPET_PACKAGES_H
#define LIMPET_PACKAGES_H

#include "limpet.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct LimpetInstall {
    const char *session;
    const char *packages; /* one requirement a line, as in a requirements file */
    double timeout;       /* seconds; 0: 300 */
    /* Gets what the installer writes, or NULL. */
    void (*on_output)(void *context, int stream, const char *bytes, size_t size);
    void *context;
} LimpetInstall;

typedef struct LimpetPackage {
    const char *name, *version;
} LimpetPackage;

typedef struct LimpetInstalled {
    const LimpetPackage *packages; /* all that the session has installed, by name */
    size_t n_packages;
    const char *lock; /* the same with their hashes, as a requirements file */
    bool cached;      /* nothing had to be fetched */
    double duration;  /* seconds */
} LimpetInstalled;

/* Installs Python packages: they can be imported at once, also by code that runs. What is there already is
 * not installed again. LIMPET_INSTALL_FAILED says why they could not be. *ret is freed with
 * limpet_installed_free(), its JSON with free(). */
LIMPET_API int limpet_install(LimpetClient *client, const LimpetInstall *install, LimpetInstalled **ret);
LIMPET_API void limpet_installed_free(LimpetInstalled *installed);
LIMPET_API char *limpet_installed_json(const LimpetInstalled *installed);

#ifdef __cplusplus
}
#endif

#endif
