#include "host/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "host/files/acl.h"
#include "host/files/remove.h"
#include "proto/base/log.h"

static int write_file(const char *directory, const char *name, const void *bytes, size_t size)
{
    char path[PATH_MAX];
    int fd _cleanup_(closep) = -1;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0400);
    if (fd < 0)
        return -errno;
    if (write(fd, bytes, size) != (ssize_t)size)
        return -EIO;
    return 0;
}

/* The directory's name is random and short: a unix socket's path has at most 107 bytes. */
static int make_directory(Guest *guest)
{
    uint8_t random[6];
    const char *base = guest->controller->paths->runtime_dir;

    if (getrandom(random, sizeof(random), 0) != sizeof(random) ||
        getrandom(guest->secret, sizeof(guest->secret), 0) != sizeof(guest->secret))
        return -EIO;
    if (asprintf(&guest->directory, "%s/guests/%02x%02x%02x%02x%02x%02x", base, random[0], random[1],
                 random[2], random[3], random[4], random[5]) < 0) {
        guest->directory = NULL;
        return -ENOMEM;
    }
    if (asprintf(&guest->socket, "%s/sock", guest->directory) < 0) {
        guest->socket = NULL;
        return -ENOMEM;
    }
    return mkdir(guest->directory, 0700) < 0 ? -errno : 0;
}

/* The supervisor is uid 0 of its container. Where we are not, the directory says that it may enter; where the
 * filesystem cannot say so, its connection fails and the session with it. */
static void let_supervisor_in(const Guest *guest)
{
    static const char *const files[] = {"session", "secret", "sock"};
    char path[PATH_MAX];

    acl_allow(guest->directory, 0, ACL_READ | ACL_ENTER);
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        snprintf(path, sizeof(path), "%s/%s", guest->directory, files[i]);
        acl_allow(path, 0, ACL_READ | ACL_WRITE);
    }
}

static int fill_directory(Guest *guest)
{
    int r = write_file(guest->directory, "session", guest->session, strlen(guest->session));

    if (r == 0)
        r = write_file(guest->directory, "secret", guest->secret, sizeof(guest->secret));
    if (r == 0)
        r = router_bind(guest->controller->guests, guest->socket);
    if (r == 0 && geteuid() != 0)
        let_supervisor_in(guest);
    return r;
}

int guest_new(Guest **ret, Controller *controller, const char *session, const GuestEvents *events,
              void *userdata, Problem *problem)
{
    Guest *guest _cleanup_(guest_freep) = calloc(1, sizeof(*guest));
    char parent[PATH_MAX];
    int r;

    if (!guest)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    guest->controller = controller;
    guest->events = events;
    guest->userdata = userdata;
    list_init(&guest->all);
    guest->session = strdup(session);
    snprintf(parent, sizeof(parent), "%s/guests", controller->paths->runtime_dir);
    if (mkdir(parent, 0700) < 0 && errno != EEXIST)
        return problem_set(problem, ERR_INTERNAL, "%s: %s", parent, strerror(errno));
    r = guest->session ? make_directory(guest) : -ENOMEM;
    if (r == 0)
        r = fill_directory(guest);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot listen for the guest in %s: %s", parent,
                           strerror(-r));
    list_append(&controller->guests_all, &guest->all);
    *ret = take(guest);
    return 0;
}

static void disconnect(Guest *guest)
{
    if (guest->connected)
        HASH_DELETE(by_peer, guest->controller->guests_by_peer, guest);
    guest->connected = false;
}

static void remove_file(const char *directory, const char *name)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    unlink(path);
}

Guest *guest_free(Guest *guest)
{
    if (!guest)
        return NULL;
    disconnect(guest);
    list_remove(&guest->all);
    if (guest->socket)
        router_unbind(guest->controller->guests, guest->socket);
    if (guest->directory) {
        remove_file(guest->directory, "session");
        remove_file(guest->directory, "secret");
        rmdir(guest->directory);
    }
    explicit_bzero(guest->secret, sizeof(guest->secret));
    free(guest->directory);
    free(guest->socket);
    free(guest->session);
    free(guest);
    return NULL;
}

int guest_expect(Guest *guest, pid_t pid)
{
    guest->expected_pid = pid;
    if (guest->connected && pid > 0 && guest->credentials.pid != pid) {
        disconnect(guest);
        return -EPERM;
    }
    return 0;
}

int guest_send(Guest *guest, const Buf *message)
{
    if (!guest->connected)
        return -EHOSTUNREACH;
    return router_send(guest->controller->guests, &guest->peer, buf_head(message), message->size);
}

typedef struct Hello {
    uint64_t protocol;
    Text session;
    Text secret;
    Text peer;
    uint64_t epoch;
    uint64_t execution_count;
} Hello;

static const Field hello_fields[] = {
    FIELD(FIELD_UINT, Hello, protocol, true, 0),
    FIELD(FIELD_TEXT, Hello, session, true, LIMIT_SESSION_NAME),
    FIELD(FIELD_BYTES, Hello, secret, true, GUEST_SECRET_SIZE),
    FIELD(FIELD_TEXT, Hello, peer, true, 128),
    FIELD(FIELD_UINT, Hello, epoch, true, 0),
    FIELD(FIELD_UINT, Hello, execution_count, true, 0),
};

/* Compares in a time that does not depend on where the difference is. */
static bool secret_matches(const Guest *guest, const Hello *hello)
{
    uint8_t difference = 0;

    if (hello->secret.size != GUEST_SECRET_SIZE)
        return false;
    for (size_t i = 0; i < GUEST_SECRET_SIZE; i++)
        difference |= guest->secret[i] ^ (uint8_t)hello->secret.data[i];
    return difference == 0;
}

static Guest *find_claimed(Controller *controller, const Hello *hello)
{
    Guest *guest;

    list_foreach (guest, &controller->guests_all, Guest, all)
        if (text_equal(hello->session, guest->session) && secret_matches(guest, hello))
            return guest;
    return NULL;
}

/* The first message of a connection: which session it is, proved by the secret only its supervisor can read
 * and by the process the kernel names. */
static void on_hello(Controller *controller, const Peer *peer, const PeerCredentials *credentials,
                     const Message *message)
{
    Hello hello = {0};
    Problem problem = PROBLEM_NULL;
    Guest *guest;

    if (message->kind != MSG_GUEST_HELLO ||
        fields_decode(&hello, hello_fields, ARRAY_SIZE(hello_fields), &message->body, &problem) < 0 ||
        !(guest = find_claimed(controller, &hello))) {
        log_warn("guest refused", "pid=%d uid=%d message=%s", (int)credentials->pid, (int)credentials->uid,
                 message_name(message->kind));
        return;
    }
    if (guest->expected_pid > 0 && credentials->pid != guest->expected_pid) {
        log_warn("guest refused", "session=%s pid=%d expected=%d", guest->session, (int)credentials->pid,
                 (int)guest->expected_pid);
        return;
    }
    disconnect(guest);
    guest->peer = *peer;
    guest->credentials = *credentials;
    guest->connected = true;
    HASH_ADD(by_peer, controller->guests_by_peer, peer, sizeof(Peer), guest);
    guest->events->hello(guest->userdata, hello.epoch, hello.execution_count);
}

static void on_message(void *userdata, const Peer *peer, const PeerCredentials *credentials,
                       const uint8_t *bytes, size_t size)
{
    Controller *controller = userdata;
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;
    Guest *guest = NULL;

    HASH_FIND(by_peer, controller->guests_by_peer, peer, sizeof(Peer), guest);
    if (message_decode(&message, bytes, size, &problem) < 0) {
        log_warn("guest message refused", "pid=%d reason=%s", (int)credentials->pid, problem.text);
        if (guest)
            guest->events->violation(guest->userdata, problem.text);
    } else if (guest) {
        guest->events->message(guest->userdata, &message);
    } else {
        on_hello(controller, peer, credentials, &message);
    }
}

static void on_multipart(void *userdata, const Peer *peer)
{
    Controller *controller = userdata;
    Guest *guest = NULL;

    HASH_FIND(by_peer, controller->guests_by_peer, peer, sizeof(Peer), guest);
    if (guest)
        guest->events->violation(guest->userdata, "a message of several frames");
}

const RouterEvents guest_router_events = {.on_message = on_message, .on_multipart = on_multipart};

void guest_sweep(const Paths *paths)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/guests", paths->runtime_dir);
    remove_path(path);
}
