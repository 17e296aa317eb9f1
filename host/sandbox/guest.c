#include "host/sandbox/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "host/files/access.h"
#include "proto/base/log.h"
#include "proto/limits.h"

/* ---- what a supervisor says of itself ---- */

bool run_id_valid(Text text)
{
    if (!text.data || text.size != LIMIT_RUN_ID)
        return false;
    for (size_t i = 0; i < text.size; i++)
        if (!strchr("0123456789abcdef", text.data[i]) || !text.data[i])
            return false;
    return true;
}

static bool has_branch(const GuestHello *hello, uint64_t branch)
{
    for (size_t i = 0; i < hello->branch_count; i++)
        if (hello->branches[i].branch == branch)
            return true;
    return false;
}

static int decode_branches(GuestHello *hello, const Value *branches, Problem *problem)
{
    for (uint32_t i = 0; i < value_count(branches); i++) {
        MsgGuestBranch branch;

        value_row(&branch, MsgGuestBranch, branches, i);
        if ((i == 0) != (branch.branch == 0) || has_branch(hello, branch.branch))
            return problem_set(problem, ERR_BAD_REQUEST, "branches: each once, and 0 first");
        hello->branches[hello->branch_count++] = branch;
    }
    return hello->branch_count > 0 ? 0 : problem_set(problem, ERR_BAD_REQUEST, "branches: none of them");
}

static int decode_call(GuestRunning *ret, const MsgGuestRunning *running, Problem *problem)
{
    if (running->id == 0 || !run_id_valid(running->run_id))
        return problem_set(problem, ERR_BAD_REQUEST, "running: invalid id or run_id");
    *ret = (GuestRunning){.id = running->id,
                          .branch = running->branch,
                          .code_hash = running->code_hash,
                          .background = running->background};
    memcpy(ret->run_id, running->run_id.data, LIMIT_RUN_ID);
    return 0;
}

static int decode_running(GuestHello *hello, const MsgGuestRunning *running, Problem *problem)
{
    if (!has_branch(hello, running->branch))
        return problem_set(problem, ERR_BAD_REQUEST, "running: invalid branch");
    return decode_call(&hello->running, running, problem);
}

bool guest_hello_has(const GuestHello *hello, uint64_t id)
{
    for (size_t i = 0; i < hello->command_count; i++)
        if (hello->commands[i].id == id)
            return true;
    return false;
}

/* The branch of one may have been closed since. */
static int decode_commands(GuestHello *hello, const Value *commands, Problem *problem)
{
    for (uint32_t i = 0; i < value_count(commands); i++) {
        MsgGuestRunning said;

        value_row(&said, MsgGuestRunning, commands, i);
        if (guest_hello_has(hello, said.id))
            return problem_set(problem, ERR_BAD_REQUEST, "commands: one of them twice");
        if (decode_call(&hello->commands[hello->command_count], &said, problem) < 0)
            return -EPROTO;
        hello->command_count++;
    }
    return 0;
}

int guest_hello_decode(GuestClaim *ret, const msgpack_object_map *body, Problem *problem)
{
    MsgGuestHello hello;
    GuestClaim claim = {0};

    if (body_decode(&hello, MsgGuestHello, body, problem) < 0)
        return -EPROTO;
    if (hello.protocol != PROTOCOL_VERSION)
        return problem_set(problem, ERR_PROTOCOL_MISMATCH,
                           "the supervisor speaks version %llu of the protocol",
                           (unsigned long long)hello.protocol);
    claim.session = hello.session;
    claim.secret = hello.secret;
    claim.hello.waits = hello.waits;
    claim.hello.passes = hello.passes;
    claim.hello.shares = hello.shares;
    if (decode_branches(&claim.hello, &hello.branches, problem) < 0 ||
        (hello.has_running && decode_running(&claim.hello, &hello.running, problem) < 0) ||
        decode_commands(&claim.hello, &hello.commands, problem) < 0)
        return -EPROTO;
    *ret = claim;
    return 0;
}

/* ---- the channel ---- */

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

static int set_paths(Guest *guest, const char *name)
{
    if (asprintf(&guest->directory, "%s/%s", guest->all->paths->links, name) < 0) {
        guest->directory = NULL;
        return -ENOMEM;
    }
    if (asprintf(&guest->socket, "%s/sock", guest->directory) < 0) {
        guest->socket = NULL;
        return -ENOMEM;
    }
    return 0;
}

/* The directory's name is random and short: a unix socket's path has at most 107 bytes. */
static int make_directory(Guest *guest)
{
    uint8_t random[6];
    char name[2 * sizeof(random) + 1];
    int r;

    if (getrandom(random, sizeof(random), 0) != sizeof(random) ||
        getrandom(guest->secret, sizeof(guest->secret), 0) != sizeof(guest->secret))
        return -EIO;
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(name + 2 * i, 3, "%02x", random[i]);
    r = set_paths(guest, name);
    if (r == 0 && mkdir(guest->directory, 0700) < 0)
        r = -errno;
    return r;
}

/* The supervisor is uid 0 of its container, which is SUPERVISOR_UID here if the users of the container are
 * mapped. Where we are neither, the directory says that it may enter; where the filesystem cannot say so, its
 * connection fails and the session with it. */
static const uid_t supervisors[] = {0, SUPERVISOR_UID};

void guest_admit(const Guest *guest, const char *name)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", guest->directory, name);
    acl_allow_each(path, supervisors, ARRAY_SIZE(supervisors), ACL_READ | ACL_WRITE);
}

static void let_supervisor_in(const Guest *guest)
{
    static const char *const files[] = {"session", "secret", "sock"};

    acl_allow_each(guest->directory, supervisors, ARRAY_SIZE(supervisors), ACL_READ | ACL_ENTER);
    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        guest_admit(guest, files[i]);
}

/* Messages of the largest size that a supervisor may leave unread. Nothing more is begun while it has more
 * than UNREAD_BEFORE of them unread. */
#define UNREAD_CALLS  4
#define UNREAD_BEFORE 1
/* Connections at once. A supervisor that connects again may do so before its first connection is gone. */
#define CONNECTIONS_MAX 8

static const ListenerEvents listener_events;

static int start_listening(Guest *guest)
{
    static const ListenerLimits limits = {
        .frame = LIMIT_GUEST_FRAME,
        .queue = UNREAD_CALLS * LIMIT_CLIENT_FRAME,
        .peers = CONNECTIONS_MAX,
        .passes = true,
    };
    int r = listener_new(&guest->listener, guest->all->loop, guest->socket, &limits, &listener_events, guest);

    if (r == 0)
        let_supervisor_in(guest);
    return r;
}

static int fill_directory(Guest *guest)
{
    int r = write_file(guest->directory, "session", guest->session, strlen(guest->session));

    if (r == 0)
        r = write_file(guest->directory, "secret", guest->secret, sizeof(guest->secret));
    if (r == 0)
        r = start_listening(guest);
    return r;
}

static Guest *guest_alloc(Sandboxes *all, const char *session, const GuestEvents *events, void *userdata)
{
    Guest *guest = calloc(1, sizeof(*guest));

    if (!guest)
        return NULL;
    guest->all = all;
    guest->events = events;
    guest->userdata = userdata;
    guest->session = strdup(session);
    if (!guest->session) {
        free(guest);
        return NULL;
    }
    return guest;
}

int guest_new(Guest **ret, Sandboxes *all, const char *session, const GuestEvents *events, void *userdata,
              Problem *problem)
{
    Guest *guest _cleanup_(guest_freep) = guest_alloc(all, session, events, userdata);
    int r;

    if (!guest)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    r = mkdir(all->paths->links, 0700) < 0 && errno != EEXIST ? -errno : make_directory(guest);
    if (r == 0)
        r = fill_directory(guest);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot listen for the guest in %s: %s",
                           all->paths->runtime_dir, strerror(-r));
    *ret = take(guest);
    return 0;
}

int guest_adopt(Guest **ret, Sandboxes *all, const char *session, const char *name,
                const uint8_t secret[GUEST_SECRET_SIZE], const GuestEvents *events, void *userdata,
                Problem *problem)
{
    Guest *guest = guest_alloc(all, session, events, userdata);
    int r;

    if (!guest || set_paths(guest, name) < 0) {
        guest_free(guest);
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    }
    memcpy(guest->secret, secret, GUEST_SECRET_SIZE);
    *ret = guest;
    r = start_listening(guest);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "the socket of the supervisor is gone: %s: %s", name,
                           strerror(-r));
    return 0;
}

const char *guest_name(const Guest *guest)
{
    return strrchr(guest->directory, '/') + 1;
}

static void remove_file(const char *directory, const char *name)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    unlink(path);
}

void guest_leave(Guest *guest)
{
    listener_free(guest->listener);
    explicit_bzero(guest->secret, sizeof(guest->secret));
    free(guest->directory);
    free(guest->socket);
    free(guest->session);
    free(guest);
}

Guest *guest_free(Guest *guest)
{
    if (!guest)
        return NULL;
    if (guest->directory) {
        remove_file(guest->directory, "session");
        remove_file(guest->directory, "secret");
        remove_file(guest->directory, "sock");
        remove_file(guest->directory, "pip"); /* a supervisor of this user makes it */
        remove_file(guest->directory, GUEST_EGRESS);
        rmdir(guest->directory);
    }
    guest_leave(guest);
    return NULL;
}

int guest_expect(Guest *guest, pid_t pid)
{
    guest->expected_pid = pid;
    if (!guest->peer || pid <= 0 || guest->credentials.pid == pid)
        return 0;
    guest->peer = 0;
    return -EPERM;
}

void guest_drop(Guest *guest)
{
    if (guest->peer)
        listener_drop(guest->listener, guest->peer);
    guest->peer = 0;
}

bool guest_takes(Guest *guest)
{
    guest->behind =
        !guest->peer || listener_untaken(guest->listener, guest->peer) > UNREAD_BEFORE * LIMIT_CLIENT_FRAME;
    return !guest->behind;
}

int guest_send_encoded(Guest *guest, const Buf *message)
{
    if (!guest->peer)
        return -EHOSTUNREACH;
    if (message->size > LIMIT_CLIENT_FRAME)
        return -EMSGSIZE;
    return listener_send(guest->listener, guest->peer, buf_head(message), message->size);
}

int guest_write(Guest *guest, MessageKind kind, uint64_t id, const Schema *schema, const void *body)
{
    Buf message _cleanup_(buf_deinit) = BUF_NULL;
    int r = message_append(&message, kind, id, schema, body);

    return r < 0 ? r : guest_send_encoded(guest, &message);
}

int guest_pass(Guest *guest, int fd, bool more)
{
    return guest->peer ? listener_pass(guest->listener, guest->peer, fd, more) : -EHOSTUNREACH;
}

int guest_take_passed(const Guest *guest)
{
    return guest->peer ? listener_take_passed(guest->listener, guest->peer) : -1;
}

/* Compares in a time that does not depend on where the difference is. */
static bool secret_matches(const Guest *guest, const GuestClaim *claim)
{
    uint8_t difference = 0;

    if (claim->secret.size != GUEST_SECRET_SIZE)
        return false;
    for (size_t i = 0; i < GUEST_SECRET_SIZE; i++)
        difference |= guest->secret[i] ^ (uint8_t)claim->secret.data[i];
    return difference == 0;
}

/* The first message of a connection: which session it is, proved by the secret only its supervisor can read
 * and by the process the kernel names. */
static void on_hello(Guest *guest, Peer peer, const PeerCredentials *credentials, const Message *message)
{
    GuestClaim claim = {0};
    Problem problem = PROBLEM_NULL;

    if (message->kind != MSG_GUEST_HELLO || guest_hello_decode(&claim, &message->body, &problem) < 0 ||
        !text_equal(claim.session, guest->session) || !secret_matches(guest, &claim)) {
        log_warn("guest refused", "session=%s pid=%d uid=%d message=%s reason=%s", guest->session,
                 (int)credentials->pid, (int)credentials->uid, message_name(message->kind),
                 *problem.text ? problem.text : "no session waits for this guest");
        return;
    }
    if (guest->expected_pid > 0 && credentials->pid != guest->expected_pid) {
        log_warn("guest refused", "session=%s pid=%d expected=%d", guest->session, (int)credentials->pid,
                 (int)guest->expected_pid);
        return;
    }
    guest->peer = peer;
    guest->credentials = *credentials;
    guest->events->hello(guest->userdata, &claim.hello);
}

static void on_message(void *userdata, Peer peer, const PeerCredentials *credentials, const uint8_t *bytes,
                       size_t size)
{
    Guest *guest = userdata;
    bool is_known = peer == guest->peer;
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;

    if (message_decode(&message, bytes, size, &problem) < 0) {
        log_warn("guest message refused", "pid=%d reason=%s", (int)credentials->pid, problem.text);
        if (is_known)
            guest->events->violation(guest->userdata, problem.text);
    } else if (is_known) {
        guest->events->message(guest->userdata, &message);
    } else {
        on_hello(guest, peer, credentials, &message);
    }
}

static void on_multipart(void *userdata, Peer peer)
{
    Guest *guest = userdata;

    if (peer == guest->peer)
        guest->events->violation(guest->userdata, "a message of several frames");
}

static void on_taken(void *userdata, Peer peer)
{
    Guest *guest = userdata;

    if (peer == guest->peer && guest->behind)
        guest->events->taken(guest->userdata);
}

static void on_gone(void *userdata, Peer peer)
{
    Guest *guest = userdata;

    if (peer == guest->peer)
        guest->peer = 0;
}

static const ListenerEvents listener_events = {
    .on_message = on_message,
    .on_multipart = on_multipart,
    .on_taken = on_taken,
    .on_gone = on_gone,
};
