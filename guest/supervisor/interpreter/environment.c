#include "guest/supervisor/interpreter/environment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest/supervisor/command_line.h"
#include "proto/places.h"

static const char *const base[] = {
    "LANG=C.UTF-8",
    "MPLBACKEND=Agg",
    "MPLCONFIGDIR=/tmp/mpl",
    "PYTHONDONTWRITEBYTECODE=1",
    /* PyArrow, which pandas imports: the C library's memory, of which too much is a MemoryError, and no
     * thread of its own for the other one's. */
    "ARROW_DEFAULT_MEMORY_POOL=system",
    "JE_ARROW_MALLOC_CONF=background_thread:false",
};
#define PROGRAMS "/usr/local/bin:/usr/bin:/bin"

/* Variable with the directory of packages that are installed while the session runs: what Python calls the
 * user base. An engine whose sandboxes have no file system of their own names another one. */
#define PACKAGES "PYTHONUSERBASE"

/* Variables that say how many threads libraries start; without them, as many as the machine has processors.
 * The engine sets the first to the processors that the sandbox may use; the others follow it. */
static const char *const threads[] = {
    "OMP_NUM_THREADS",    "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",   "NUMEXPR_NUM_THREADS",  "NUMEXPR_MAX_THREADS",
    "POLARS_MAX_THREADS", "RAYON_NUM_THREADS",    "PYTHON_CPU_COUNT",
};
#define THREADS_UNKNOWN "1"

/* Variables by which programs find the proxy, and one that tells Node to look for them. */
static const char *const proxied[] = {"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"};
static const char *const around_proxy[] = {"no_proxy=localhost,127.0.0.1,::1",
                                           "NO_PROXY=localhost,127.0.0.1,::1", "NODE_USE_ENV_PROXY=1"};
/* A script that Node preloads, if the image has it: old versions ignore the proxy variables, and all tunnel
 * plain HTTP, past the bindings. */
#define NODE_PRELOAD  "/usr/lib/limpet/languages/proxy.cjs"
#define NODE_OPTIONS  "NODE_OPTIONS=--require=" NODE_PRELOAD
#define PROXY_ENTRIES (ARRAY_SIZE(proxied) + ARRAY_SIZE(around_proxy) + 1)

void environment_deinit(Environment *environment)
{
    for (size_t i = 0; i < environment->n; i++)
        free(environment->entries[i]);
    free(environment->entries);
    *environment = (Environment){0};
}

/* Takes ownership of `entry`; one of the same name gives way. */
static int set_entry(Environment *environment, char *entry)
{
    if (!entry)
        return -ENOMEM;

    size_t name = strcspn(entry, "=") + 1;

    for (size_t i = 0; i < environment->n; i++) {
        if (strncmp(environment->entries[i], entry, name) == 0) {
            free(environment->entries[i]);
            environment->entries[i] = entry;
            return 0;
        }
    }
    environment->entries[environment->n++] = entry;
    return 0;
}

static char *entry_format(const char *name, size_t name_size, const char *value, size_t value_size)
{
    char *entry = malloc(name_size + value_size + 2);

    if (!entry)
        return NULL;
    memcpy(entry, name, name_size);
    entry[name_size] = '=';
    memcpy(entry + name_size + 1, value, value_size);
    entry[name_size + 1 + value_size] = '\0';
    return entry;
}

static int set_pair(Environment *environment, const msgpack_object_kv *pair, Problem *problem)
{
    const msgpack_object_str *name = &pair->key.via.str, *value = &pair->val.via.str;

    if (pair->key.type != MSGPACK_OBJECT_STR || pair->val.type != MSGPACK_OBJECT_STR)
        return problem_set(problem, ERR_BAD_REQUEST, "env maps text to text");
    if (name->size == 0 || memchr(name->ptr, '=', name->size) || memchr(name->ptr, '\0', name->size) ||
        memchr(value->ptr, '\0', value->size))
        return problem_set(problem, ERR_BAD_REQUEST, "env has an entry that no environment can hold");
    return set_entry(environment, entry_format(name->ptr, name->size, value->ptr, value->size));
}

static int set_all(Environment *environment, const char *const *entries, size_t n)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++)
        r = set_entry(environment, strdup(entries[i]));
    return r;
}

static int set_threads(Environment *environment)
{
    const char *n = getenv(threads[0]);
    int r = 0;

    if (!n)
        n = THREADS_UNKNOWN;
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(threads); i++)
        r = set_entry(environment, entry_format(threads[i], strlen(threads[i]), n, strlen(n)));
    return r;
}

/* Sets the socket at which pip asks, likewise. */
static int set_pip(Environment *environment)
{
    const char *path = getenv(PIP_VARIABLE);

    if (!path)
        path = PIP_SOCKET;
    return set_entry(environment, entry_format(PIP_VARIABLE, strlen(PIP_VARIABLE), path, strlen(path)));
}

/* Their programs come first, as those of the same name in the image may be older. */
static int set_packages(Environment *environment)
{
    const char *base_directory = getenv(PACKAGES);
    char path[LIMIT_PATH + sizeof(PROGRAMS) + 8];
    int n, r;

    if (!base_directory)
        base_directory = "/" PACKAGES_TARGET;
    n = snprintf(path, sizeof(path), "%.*s/bin:" PROGRAMS, (int)LIMIT_PATH, base_directory);
    r = set_entry(environment,
                  entry_format(PACKAGES, strlen(PACKAGES), base_directory, strlen(base_directory)));
    return r < 0 ? r : set_entry(environment, entry_format("PATH", 4, path, (size_t)n));
}

static int set_proxies(Environment *environment, uint16_t port)
{
    char url[40];
    int r = 0;

    snprintf(url, sizeof(url), "http://127.0.0.1:%u", port);
    for (size_t i = 0; r == 0 && port && i < ARRAY_SIZE(proxied); i++)
        r = set_entry(environment, entry_format(proxied[i], strlen(proxied[i]), url, strlen(url)));
    if (r == 0 && port)
        r = set_all(environment, around_proxy, ARRAY_SIZE(around_proxy));
    if (r == 0 && port && access(NODE_PRELOAD, R_OK) == 0)
        r = set_entry(environment, strdup(NODE_OPTIONS));
    return r;
}

static int fill(Environment *environment, const char *home, uint16_t port, const msgpack_object_map *set,
                Problem *problem)
{
    int r = set_entry(environment, entry_format("HOME", 4, home, strlen(home)));

    if (r == 0)
        r = set_all(environment, base, ARRAY_SIZE(base));
    if (r == 0)
        r = set_packages(environment);
    if (r == 0)
        r = set_pip(environment);
    if (r == 0)
        r = set_threads(environment);
    if (r == 0)
        r = set_proxies(environment, port);
    for (uint32_t i = 0; r == 0 && set && i < set->size; i++)
        r = set_pair(environment, &set->ptr[i], problem);
    return r;
}

int environment_init(Environment *ret, const char *home, uint16_t port, const msgpack_object_map *set,
                     Problem *problem)
{
    _cleanup_(environment_deinit) Environment environment = {0};

    if (set && set->size > LIMIT_ENV)
        return problem_set(problem, ERR_TOO_LARGE, "env has more than %u entries", LIMIT_ENV);
    environment.entries =
        calloc(4 + ARRAY_SIZE(base) + ARRAY_SIZE(threads) + PROXY_ENTRIES + (set ? set->size : 0) + 1,
               sizeof(char *));
    if (!environment.entries)
        return -ENOMEM;

    int r = fill(&environment, home, port, set, problem);
    if (r < 0)
        return r;
    *ret = environment;
    environment = (Environment){0};
    return 0;
}

static int extend(Environment *environment, const Environment *of, const msgpack_object_map *set,
                  Problem *problem)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < of->n; i++) {
        char *entry = strdup(of->entries[i]);

        r = entry ? 0 : -ENOMEM;
        if (entry)
            environment->entries[environment->n++] = entry;
    }
    for (uint32_t i = 0; r == 0 && set && i < set->size; i++)
        r = set_pair(environment, &set->ptr[i], problem);
    return r;
}

int environment_extend(Environment *ret, const Environment *of, const msgpack_object_map *set,
                       Problem *problem)
{
    _cleanup_(environment_deinit) Environment environment = {0};

    if (set && set->size > LIMIT_ENV)
        return problem_set(problem, ERR_TOO_LARGE, "env has more than %u entries", LIMIT_ENV);
    environment.entries = calloc(of->n + (set ? set->size : 0) + 1, sizeof(char *));
    if (!environment.entries)
        return -ENOMEM;

    int r = extend(&environment, of, set, problem);
    if (r < 0)
        return r;
    *ret = environment;
    environment = (Environment){0};
    return 0;
}

int environment_proxy(Environment *ret, const Environment *of, uint16_t port)
{
    _cleanup_(environment_deinit) Environment environment = {0};
    int r;

    environment.entries = calloc(PROXY_ENTRIES + of->n + 1, sizeof(char *));
    if (!environment.entries)
        return -ENOMEM;
    r = set_proxies(&environment, port);
    for (size_t i = 0; r == 0 && i < of->n; i++)
        r = set_entry(&environment, strdup(of->entries[i]));
    if (r < 0)
        return r;
    *ret = environment;
    environment = (Environment){0};
    return 0;
}

bool environment_is_of_proxy(const char *entry)
{
    size_t name = strcspn(entry, "=") + 1;

    for (size_t i = 0; i < ARRAY_SIZE(around_proxy); i++)
        if (strncmp(entry, around_proxy[i], name) == 0)
            return true;
    if (strcmp(entry, NODE_OPTIONS) == 0)
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(proxied); i++)
        if (strlen(proxied[i]) == name - 1 && strncmp(entry, proxied[i], name - 1) == 0)
            return true;
    return false;
}

static bool has_entry(const Environment *environment, const char *entry)
{
    for (size_t i = 0; i < environment->n; i++)
        if (strcmp(environment->entries[i], entry) == 0)
            return true;
    return false;
}

bool environment_equal(const Environment *one, const Environment *other)
{
    for (size_t i = 0; i < one->n; i++)
        if (!has_entry(other, one->entries[i]))
            return false;
    return one->n == other->n;
}

/* Prefixes of entries that are read once, when the programs and libraries named here start. */
static const char *const read_at_start[] = {
    "PYTHON",                              /* Python: its paths, the seed of its hashes */
    "LC_",       "LANG=",     "LANGUAGE=", /* Python: the locale, and with that the encodings */
    "LD_",       "GLIBC_",    "MALLOC_",   /* the dynamic linker and the C library */
    "OMP_",      "GOMP_",     "KMP_",      /* OpenMP: how many threads */
    "OPENBLAS_", "GOTO_",     "MKL_",      /* linear algebra: likewise */
    "BLIS_",     "NUMEXPR_",  "NPY_",      /* NumPy and what goes with it */
    "ARROW_",    "JE_ARROW_",              /* Arrow: where its memory comes from */
    "POLARS_",   "RAYON_",                 /* data frames, and what their threads come from */
    "MPL",                                 /* Matplotlib: the back end, its configuration */
    "OPENSSL_",                            /* OpenSSL: its configuration */
    "TMPDIR=",   "TEMP=",     "TMP=",      /* tempfile: the first directory that will do */
};

static bool is_read_at_start(const char *entry)
{
    for (size_t i = 0; i < ARRAY_SIZE(read_at_start); i++)
        if (strncmp(entry, read_at_start[i], strlen(read_at_start[i])) == 0)
            return true;
    return false;
}

/* Returns whether `one` has an entry read at the start that `other` has not. */
static bool differs_at_start(const Environment *one, const Environment *other)
{
    for (size_t i = 0; i < one->n; i++)
        if (is_read_at_start(one->entries[i]) && !has_entry(other, one->entries[i]))
            return true;
    return false;
}

bool environment_needs_start(const Environment *from, const Environment *to)
{
    return differs_at_start(from, to) || differs_at_start(to, from);
}
