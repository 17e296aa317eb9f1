#include "guest/supervisor/services/pip.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "guest/supervisor/command_line.h"
#include "guest/supervisor/services/ports.h"
#include "proto/base/log.h"

#define OUT_MAX (1u << 20) /* bytes that wait for a program which does not read; more are left out */

typedef struct PipRequest {
    List link; /* Pip.asks */
    Pip *pip;
    uint64_t number;
    LoopFile file;
    Buf in;    /* the requirements */
    Buf out;   /* bytes that it has not read yet */
    bool asks; /* all of `in` is there */
    bool sent; /* to this controller */
    bool over; /* `out` is all there will be */
} PipRequest;

static void listen_if_room(Pip *pip);

static void ask_free(PipRequest *ask)
{
    Pip *pip = ask->pip;

    loop_file_remove(&ask->file);
    close_fd(&ask->file.fd);
    list_remove(&ask->link);
    buf_deinit(&ask->in);
    buf_deinit(&ask->out);
    free(ask);
    pip->count--;
    listen_if_room(pip);
}

/* ---- what it is told ---- */

static void update(PipRequest *ask)
{
    uint32_t events = ask->out.size > 0 ? EPOLLOUT : 0;

    if (!ask->asks)
        events |= EPOLLIN;
    if (ask->over && ask->out.size == 0)
        ask_free(ask);
    else
        loop_file_change(&ask->file, events);
}

static void tell(PipRequest *ask, Text text, bool over, bool failed)
{
    static const char *const ends[] = {"\0000", "\0001"};

    ask->over = over;
    if (ask->out.size + text.size < OUT_MAX)
        buf_append(&ask->out, text.data, text.size);
    if (over && buf_append(&ask->out, ends[failed], 2) < 0)
        buf_clear(&ask->out);
    update(ask);
}

static void fail(PipRequest *ask, const char *why)
{
    tell(ask, text_of(why), true, true);
}

static PipRequest *find(const Pip *pip, uint64_t number)
{
    PipRequest *ask;

    list_foreach (ask, (List *)&pip->asks, PipRequest, link)
        if (ask->number == number)
            return ask;
    return NULL;
}

/* Whoever asked may be gone. */
int pip_told(Pip *pip, const Message *message, Problem *problem)
{
    PipRequest *ask = find(pip, message->id);
    MsgInstallTold told;
    int r = body_decode(&told, MsgInstallTold, &message->body, problem);

    if (r == 0 && ask && !ask->over)
        tell(ask, told.text, told.over, told.failed);
    return r;
}

/* ---- what it asks ---- */

static void send_ask(PipRequest *ask)
{
    const MsgInstallAsked asked = {.packages = {(const char *)buf_head(&ask->in), ask->in.size}};

    if (!ask->asks || ask->sent || ask->over || !ask->pip->link->accepted)
        return;
    ask->sent = link_say(ask->pip->link, MSG_INSTALL, ask->number, MsgInstallAsked, &asked) == 0;
}

static void read_more(PipRequest *ask)
{
    ssize_t n = buf_read_fd(&ask->in, ask->file.fd, LIMIT_REQUIREMENTS);

    if (n == -ENOBUFS) {
        ask->asks = true;
        fail(ask, "ERROR: these are too many requirements\n");
    } else if (n == 0 && ask->in.size > 0) {
        ask->asks = true;
        send_ask(ask);
        update(ask);
    } else if (n == 0 || (n < 0 && n != -EAGAIN && n != -EINTR)) {
        ask_free(ask);
    }
}

static void on_ready(LoopFile *file, uint32_t events)
{
    PipRequest *ask = container_of(file, PipRequest, file);

    if (events & EPOLLOUT && buf_send(&ask->out, file->fd) < 0) {
        ask_free(ask);
        return;
    }
    if (!ask->asks && events & (EPOLLIN | EPOLLHUP))
        read_more(ask);
    else if (events & (EPOLLERR | EPOLLHUP))
        ask_free(ask); /* its program has ended */
    else
        update(ask);
}

/* ---- the socket ---- */

static void take_connection(Pip *pip, int fd)
{
    PipRequest *ask = calloc(1, sizeof(*ask));

    if (!ask || loop_file_add(pip->loop, &ask->file, fd, EPOLLIN, on_ready) < 0) {
        free(ask);
        close(fd);
        return;
    }
    ask->pip = pip;
    ask->number = ++pip->last;
    ask->in.limit = LIMIT_REQUIREMENTS;
    list_append(&pip->asks, &ask->link);
    pip->count++;
    listen_if_room(pip);
}

static void on_connection(LoopFile *file, uint32_t events)
{
    int fd = accept4(file->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0)
        take_connection(container_of(file, Pip, listener), fd);
}

static void listen_if_room(Pip *pip)
{
    if (pip->listener.loop)
        loop_file_change(&pip->listener, pip->count < PIP_ASKS_MAX ? EPOLLIN : 0);
}

void pip_init(Pip *pip, Loop *loop, Link *link)
{
    const char *path = getenv(PIP_VARIABLE);
    int fd;

    *pip = (Pip){.loop = loop, .link = link, .listener.fd = -1};
    list_init(&pip->asks);
    snprintf(pip->path, sizeof(pip->path), "%s", path ? path : PIP_SOCKET);
    unlink(pip->path);
    fd = listen_at_path(pip->path, PIP_ASKS_MAX);
    if (fd >= 0 && loop_file_add(loop, &pip->listener, fd, EPOLLIN, on_connection) < 0)
        closep(&fd);
    if (fd < 0)
        log_warn("nobody can ask for packages", "path=%s error=%s", pip->path, strerror(-fd));
}

void pip_deinit(Pip *pip)
{
    PipRequest *ask;

    list_foreach (ask, &pip->asks, PipRequest, link)
        ask_free(ask);
    if (!pip->listener.loop)
        return;
    loop_file_remove(&pip->listener);
    close_fd(&pip->listener.fd);
    unlink(pip->path);
}

/* ---- the controller ---- */

void pip_on_controller(Pip *pip)
{
    PipRequest *ask;

    list_foreach (ask, &pip->asks, PipRequest, link)
        send_ask(ask);
}

void pip_on_controller_lost(Pip *pip)
{
    PipRequest *ask;

    list_foreach (ask, &pip->asks, PipRequest, link)
        ask->sent = false;
}
