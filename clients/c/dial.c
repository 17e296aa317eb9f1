#include "clients/c/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "clients/c/launch.h"
#include "proto/base/buf.h"
#include "proto/base/clock.h"
#include "proto/wire.h"

/* ---- the address ---- */

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

/* ---- the command ---- */

#define WORDS_READ ((size_t)64 << 10) /* what a pipe holds */
#define WORDS_MAX  400
#define HINT_MAX   400
/* A command that has closed the connection may still be about to end. */
#define END_MSEC 1000

/* Its ends are at 0 and 1. */
static int make_pipe(int ret[static 2])
{
    if (pipe2(ret, O_CLOEXEC) < 0)
        return -errno;
    if (fcntl(ret[1], F_SETFL, O_NONBLOCK) == 0)
        return 0;
    closep(&ret[0]);
    closep(&ret[1]);
    return -errno;
}

static int not_started(char *const *arguments, const char *address, int r, Problem *problem)
{
    if (r == -ENOENT)
        return problem_set(
            problem, ERR_UNAVAILABLE,
            "the controller at %s is reached with the program %s, which is not in PATH; install it", address,
            arguments[0]);
    return problem_set(problem, ERR_UNAVAILABLE, "the controller at %s is reached with the program %s: %s",
                       address, arguments[0], strerror(-r));
}

static int start(DialledCommand *ret, int *ret_fd, char *const *arguments)
{
    _cleanup_(freep) char **env = environment_with(NULL);
    _cleanup_(closep) int ours = -1, theirs = -1, words = -1, said = -1;
    int ends[2], r;
    pid_t pid;

    if (!env)
        return -ENOMEM;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    ours = ends[0];
    theirs = ends[1];
    r = make_pipe(ends);
    if (r < 0)
        return r;
    words = ends[0];
    said = ends[1];
    r = spawn_apart(&pid, arguments, env, (int[]){theirs, theirs, said});
    if (r < 0)
        return r;
    *ret = (DialledCommand){.pid = pid, .words_fd = take_fd(&words)};
    *ret_fd = take_fd(&ours);
    return 0;
}

int dial(DialledCommand *ret, int *ret_fd, const char *address, Problem *problem)
{
    char **arguments _cleanup_(dial_arguments_freep) = NULL;
    int r = dial_arguments(&arguments, address, problem);

    if (r < 0)
        return r;
    r = start(ret, ret_fd, arguments);
    return r < 0 && r != -ENOMEM ? not_started(arguments, address, r, problem) : r;
}

void dial_end(DialledCommand *command)
{
    if (command->pid > 0) {
        kill(-command->pid, SIGKILL);
        spawn_reap(command->pid);
    }
    close_fd(&command->words_fd);
    *command = DIALLED_NULL;
}

static void *attend(void *command)
{
    spawn_reap(((DialledCommand *)command)->pid);
    close(((DialledCommand *)command)->words_fd);
    free(command);
    return NULL;
}

/* A thread waits for its end. */
void dial_release(DialledCommand *command)
{
    DialledCommand *copy = command->pid > 0 ? malloc(sizeof(*copy)) : NULL;
    pthread_t thread;

    if (!copy)
        return;
    *copy = *command;
    if (pthread_create(&thread, NULL, attend, copy) == 0) {
        pthread_detach(thread);
        *command = DIALLED_NULL;
    } else {
        free(copy);
    }
}

/* ---- why it failed ---- */

static void wait_for_end(const DialledCommand *command)
{
    _cleanup_(closep) int pidfd = pidfd_open(command->pid, 0);

    if (pidfd >= 0)
        poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, END_MSEC);
}

static int read_words(const DialledCommand *command, Buf *ret)
{
    ssize_t n = 1;

    if (fcntl(command->words_fd, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    while (n > 0 && ret->size < WORDS_READ)
        n = buf_read_fd(ret, command->words_fd, WORDS_READ - ret->size);
    return n == -ENOMEM ? -ENOMEM : 0;
}

/* The end of what was said, as one line of text. */
static void settle_words(const Buf *said, char ret[static WORDS_MAX + 1])
{
    const char *bytes = (const char *)buf_head(said);
    size_t size = said->size, kept = 0;

    while (size > 0 && (unsigned char)bytes[size - 1] <= ' ')
        size--;
    for (size_t at = size > WORDS_MAX ? size - WORDS_MAX : 0; at < size; at++) {
        char c = bytes[at];

        if ((unsigned char)c < ' ' || c == 0x7f)
            c = ' ';
        if (c != ' ' || (kept > 0 && ret[kept - 1] != ' '))
            ret[kept++] = c;
    }
    ret[kept] = '\0';
}

/* Writes the command that has to work first: the same one, for the version of the program there. */
static void write_hint(char *const *arguments, char ret[static HINT_MAX + 1])
{
    size_t at = 0;

    ret[0] = '\0';
    for (; *arguments && at < HINT_MAX; arguments++)
        at += (size_t)snprintf(ret + at, HINT_MAX + 1 - at, "%s%s", at ? " " : "",
                               arguments[1] ? *arguments : "version");
}

static int say(const char *address, const char *why, Problem *problem)
{
    char **arguments _cleanup_(dial_arguments_freep) = NULL;
    char hint[HINT_MAX + 1];
    int r = dial_arguments(&arguments, address, problem);

    if (!arguments || !*arguments)
        return r;
    if (strcmp(arguments[0], "/bin/sh") == 0)
        return problem_set(
            problem, ERR_UNAVAILABLE,
            "the controller at %s cannot be reached: %s; the command has to become a connection, as "
            "`limpet dial-stdio` does on the controller's machine",
            address, why);
    write_hint(arguments, hint);
    return problem_set(problem, ERR_UNAVAILABLE,
                       "the controller at %s cannot be reached: %s; first `%s` has to work", address, why,
                       hint);
}

int dial_explain(DialledCommand *command, const char *address, bool silent, Problem *problem)
{
    _cleanup_(buf_deinit) Buf said = BUF_NULL, text = BUF_NULL;
    char words[WORDS_MAX + 1];
    int r;

    if (!silent)
        wait_for_end(command);
    r = read_words(command, &said);
    dial_end(command);
    if (r < 0)
        return r;
    settle_words(&said, words);
    if (utf8_append_replaced(&text, words, strlen(words)) < 0 || buf_append(&text, "", 1) < 0)
        return -ENOMEM;
    if (text.size > 1)
        return say(address, (const char *)buf_head(&text), problem);
    return say(address,
               silent ? "its command has not become a connection within 9 seconds, and says nothing"
                      : "its command has ended, and said nothing",
               problem);
}
