/* Addresses that stand for the arguments of a command. limpet/_dialling.py has the same for Python. */
#include <errno.h>
#include <string.h>

#include "clients/c/dial.h"

#define ARGUMENTS_MAX 24
#define FORM_SSH      "ssh://[USER@]HOST[:PORT]"
#define FORM_PODS     "kubernetes://[CONTEXT/]NAMESPACE"

typedef struct Arguments {
    char *items[ARGUMENTS_MAX + 1];
    size_t n;
    bool failed;
} Arguments;

static void add_n(Arguments *arguments, const char *text, size_t size)
{
    char *copy = arguments->n < ARGUMENTS_MAX ? strndup(text, size) : NULL;

    if (copy)
        arguments->items[arguments->n++] = copy;
    else
        arguments->failed = true;
}

static void add(Arguments *arguments, const char *text)
{
    add_n(arguments, text, strlen(text));
}

static void add_all(Arguments *arguments, const char *const *texts)
{
    for (; *texts; texts++)
        add(arguments, *texts);
}

static int refuse(const char *address, const char *form, Problem *problem)
{
    return problem_set(problem, ERR_BAD_REQUEST, "the address %s does not have the form %s", address, form);
}

static int add_exec(Arguments *arguments, const char *address, const char *command, Problem *problem)
{
    if (command[strspn(command, " \t")] == '\0')
        return refuse(address, "exec:COMMAND", problem);
    add_all(arguments, (const char *const[]){"/bin/sh", "-c", command, NULL});
    return 0;
}

/* The user and the host are arguments of ssh, and never options of it. A silent network is noticed as soon as
 * over tcp://, and nothing is asked where nobody could answer. */
static int add_ssh(Arguments *arguments, const char *address, const char *place, Problem *problem)
{
    const char *at = strrchr(place, '@'), *host = at ? at + 1 : place;
    size_t size = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    const char *port = host + MIN(size, strlen(host));

    if (*host == '\0' || *host == '-' || *place == '-' || at == place || size == 0 || strpbrk(place, "/ ") ||
        (*port && (*port != ':' || port[1] == '\0' || port[strspn(port + 1, "0123456789") + 1])))
        return refuse(address, FORM_SSH, problem);
    add_all(arguments, (const char *const[]){"ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=8",
                                             "-o", "ServerAliveInterval=15", NULL});
    if (at) {
        add(arguments, "-l");
        add_n(arguments, place, (size_t)(at - place));
    }
    if (*port) {
        add(arguments, "-p");
        add(arguments, port + 1);
    }
    add(arguments, "--");
    if (*host == '[')
        add_n(arguments, host + 1, size - 2);
    else
        add_n(arguments, host, size);
    add_all(arguments, (const char *const[]){"limpet", "dial-stdio", NULL});
    return 0;
}

/* The docker command itself reads contexts, DOCKER_HOST and certificates. It checks who answers over TCP only
 * where it is told to, which giving it certificates means here. */
static void add_docker(Arguments *arguments, const char *place)
{
    const char *certificates = secure_getenv("DOCKER_CERT_PATH");

    add(arguments, "docker");
    if (strncmp(place, "tcp://", strlen("tcp://")) == 0 && certificates && *certificates)
        add(arguments, "--tlsverify");
    if (*place) {
        add(arguments, strstr(place, "://") ? "--host" : "--context");
        add(arguments, place);
    }
    add_all(arguments,
            (const char *const[]){"exec", "--interactive", "limpet", "limpet", "dial-stdio", NULL});
}

/* Names of contexts may have slashes, those of namespaces have none. */
static int add_pods(Arguments *arguments, const char *address, const char *place, Problem *problem)
{
    const char *slash = strrchr(place, '/'), *space = slash ? slash + 1 : place;

    if (*space == '\0' || slash == place)
        return refuse(address, FORM_PODS, problem);
    add(arguments, "kubectl");
    if (slash) {
        add(arguments, "--context");
        add_n(arguments, place, (size_t)(slash - place));
    }
    add_all(arguments, (const char *const[]){"--namespace", space, "exec", "--stdin", "deployment/limpet",
                                             "--", "limpet", "dial-stdio", NULL});
    return 0;
}

/* Returns the part after `scheme`, or NULL. */
static const char *after(const char *address, const char *scheme)
{
    size_t size = strlen(scheme);

    return strncmp(address, scheme, size) == 0 ? address + size : NULL;
}

bool dial_is(const char *address)
{
    return after(address, "exec:") || after(address, "ssh://") || after(address, "docker://") ||
           after(address, "kubernetes://");
}

int dial_arguments(char ***ret, const char *address, Problem *problem)
{
    Arguments arguments = {0};
    const char *place;
    int r = 0;

    if ((place = after(address, "exec:")))
        r = add_exec(&arguments, address, place, problem);
    else if ((place = after(address, "ssh://")))
        r = add_ssh(&arguments, address, place, problem);
    else if ((place = after(address, "docker://")))
        add_docker(&arguments, place);
    else if ((place = after(address, "kubernetes://")))
        r = add_pods(&arguments, address, place, problem);
    if (r == 0) {
        char **items = arguments.failed ? NULL : calloc(arguments.n + 1, sizeof(*items));

        if (items) {
            memcpy(items, arguments.items, arguments.n * sizeof(*items));
            *ret = items;
            return 0;
        }
        r = -ENOMEM;
    }
    for (size_t i = 0; i < arguments.n; i++)
        free(arguments.items[i]);
    return r;
}

char **dial_arguments_free(char **arguments)
{
    for (char **item = arguments; item && *item; item++)
        free(*item);
    free(arguments);
    return NULL;
}
