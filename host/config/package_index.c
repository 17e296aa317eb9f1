#include "host/config/package_index.h"

#include <errno.h>
#include <ini.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#define BLANKS " ,\t\n"

/* ---- what pip on this host is configured with ---- */

typedef struct PipSettings {
    char *index, *certificates;
} PipSettings;

static void set(char **setting, const char *value)
{
    char *copy = strdup(value);

    if (!copy)
        return;
    free(*setting);
    *setting = copy;
}

/* inih's handler. pip takes either line for a dash. */
static int on_pair(void *userdata, const char *section, const char *name, const char *value)
{
    PipSettings *settings = userdata;

    if (strcmp(section, "global") != 0 && strcmp(section, "install") != 0)
        return 1;
    if (strcmp(name, "index-url") == 0 || strcmp(name, "index_url") == 0)
        set(&settings->index, value);
    else if (strcmp(name, "cert") == 0)
        set(&settings->certificates, value);
    return 1;
}

static void read_home(PipSettings *settings)
{
    static const char *const places[] = {".pip/pip.conf", ".config/pip/pip.conf"};
    const struct passwd *user = getpwuid(geteuid());
    const char *home = getenv("HOME");
    char path[PATH_MAX];

    if (!home || !*home)
        home = user ? user->pw_dir : "/";
    for (size_t i = 0; i < ARRAY_SIZE(places); i++)
        if ((size_t)snprintf(path, sizeof(path), "%s/%s", home, places[i]) < sizeof(path))
            ini_parse(path, on_pair, settings);
}

/* In the order in which later ones win. */
static PipSettings read_settings(void)
{
    PipSettings settings = {0};
    const char *file = getenv("PIP_CONFIG_FILE"), *index = getenv("PIP_INDEX_URL"),
               *cert = getenv("PIP_CERT");

    ini_parse("/etc/xdg/pip/pip.conf", on_pair, &settings);
    ini_parse("/etc/pip.conf", on_pair, &settings);
    read_home(&settings);
    if (file && *file)
        ini_parse(file, on_pair, &settings);
    if (index && *index)
        set(&settings.index, index);
    if (cert && *cert)
        set(&settings.certificates, cert);
    return settings;
}

/* ---- URLs ---- */

/* The word at `at`, which is moved behind it; empty at the end. */
static IndexUrl next_url(const char **at)
{
    const char *from = *at + strspn(*at, BLANKS);
    size_t size = strcspn(from, BLANKS);

    *at = from + size;
    return (IndexUrl){from, size};
}

static bool begins(IndexUrl url, const char *scheme)
{
    return url.size > strlen(scheme) && strncmp(url.text, scheme, strlen(scheme)) == 0;
}

/* Appends the host and the port of the URL. */
static void print_host(FILE *out, IndexUrl url, bool first)
{
    bool plain = begins(url, "http://");
    const char *from = url.text + strlen(plain ? "http://" : "https://"), *end = url.text + url.size;
    const char *slash = memchr(from, '/', (size_t)(end - from)), *at;
    size_t size;
    bool has_port;

    end = slash ? slash : end;
    at = memrchr(from, '@', (size_t)(end - from));
    from = at ? at + 1 : from;
    size = (size_t)(end - from);
    has_port = memchr(*from == '[' ? end - 1 : from, ':', *from == '[' ? 1 : size) ||
               (*from == '[' && end[-1] != ']');
    fprintf(out, "%s%.*s%s", first ? "" : ",", (int)size, from, has_port ? "" : plain ? ":80" : ":443");
}

IndexUrl package_index_url(const Options *options)
{
    const char *at = options->package_index;

    return next_url(&at);
}

char *package_index_hosts(const Options *options)
{
    const char *at = options->package_index;
    char *hosts = NULL;
    size_t size;
    FILE *out = open_memstream(&hosts, &size);
    bool first = true;

    for (IndexUrl url = next_url(&at); out && url.size > 0; url = next_url(&at), first = false)
        print_host(out, url, first);
    if (!out || fclose(out) != 0)
        return NULL;
    return hosts;
}

static int check(const char *urls, Problem *problem)
{
    const char *at = urls;
    IndexUrl url = next_url(&at);

    for (; url.size > 0; url = next_url(&at))
        if (!begins(url, "https://") && !begins(url, "http://"))
            return problem_set(
                problem, ERR_BAD_REQUEST,
                "package_index: '%.*s' is no URL; it is that of the index, and then those of hosts "
                "that it keeps files on, such as https://index.example/simple",
                (int)url.size, url.text);
    return 0;
}

int package_index_settle(Options *options, Problem *problem)
{
    PipSettings settings = read_settings();

    if (!*options->package_index)
        set(&options->package_index, settings.index ? settings.index : STANDARD_INDEX); /* CMake asks pip */
    if (!*options->package_certificates && settings.certificates)
        set(&options->package_certificates, settings.certificates);
    free(settings.index);
    free(settings.certificates);
    return check(options->package_index, problem);
}
