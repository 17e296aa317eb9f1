#include "host/http/multi.h"

#include <errno.h>
#include <sys/socket.h>

#include "proto/base/clock.h"

/* libcurl says which sockets and which timer it wants watched. */
typedef struct Watched {
    LoopFile file;
    Multi *multi;
} Watched;

curl_socket_t multi_open_socket(void *userdata, curlsocktype purpose, struct curl_sockaddr *address)
{
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static void tell_ended(Multi *multi)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(multi->handle, &left))) {
        CURL *easy = message->easy_handle;
        CURLcode code = message->data.result;

        if (message->msg == CURLMSG_DONE)
            multi->ended(easy, code);
    }
}

static void on_socket_ready(LoopFile *file, uint32_t events)
{
    Multi *multi = container_of(file, Watched, file)->multi;
    int action = (events & EPOLLIN ? CURL_CSELECT_IN : 0) | (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                 (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
    int running;

    curl_multi_socket_action(multi->handle, file->fd, action, &running);
    tell_ended(multi);
}

static void unwatch(Multi *multi, Watched *watched, curl_socket_t socket)
{
    if (!watched)
        return;
    loop_file_remove(&watched->file);
    free(watched);
    curl_multi_assign(multi->handle, socket, NULL);
}

static int watch(Multi *multi, curl_socket_t socket, uint32_t events)
{
    Watched *watched = calloc(1, sizeof(*watched));

    if (!watched)
        return -1;
    watched->multi = multi;
    if (loop_file_add(multi->loop, &watched->file, socket, events, on_socket_ready) < 0) {
        free(watched);
        return -1;
    }
    curl_multi_assign(multi->handle, socket, watched);
    return 0;
}

static int on_socket_wanted(CURL *easy, curl_socket_t socket, int what, void *userdata, void *socketdata)
{
    Watched *watched = socketdata;
    uint32_t events = (what & CURL_POLL_IN ? EPOLLIN : 0) | (what & CURL_POLL_OUT ? EPOLLOUT : 0);

    if (what == CURL_POLL_REMOVE) {
        unwatch(userdata, watched, socket);
        return 0;
    }
    if (watched)
        return loop_file_change(&watched->file, events) < 0 ? -1 : 0;
    return watch(userdata, socket, events);
}

static void on_timer_due(LoopTimer *timer)
{
    Multi *multi = container_of(timer, Multi, timer);
    int running;

    curl_multi_socket_action(multi->handle, CURL_SOCKET_TIMEOUT, 0, &running);
    tell_ended(multi);
}

static int on_timer_wanted(CURLM *handle, long milliseconds, void *userdata)
{
    Multi *multi = userdata;

    if (milliseconds < 0) {
        loop_timer_cancel(&multi->timer);
        return 0;
    }
    return loop_timer_set(multi->loop, &multi->timer, clock_now() + (uint64_t)milliseconds * NSEC_PER_MSEC,
                          on_timer_due) < 0
               ? -1
               : 0;
}

int multi_init(Multi *multi, Loop *loop, void (*ended)(CURL *easy, CURLcode code))
{
    *multi = (Multi){.loop = loop, .ended = ended};
    curl_global_init(CURL_GLOBAL_DEFAULT);
    multi->handle = curl_multi_init();
    if (!multi->handle) {
        curl_global_cleanup();
        return -ENOMEM;
    }
    curl_multi_setopt(multi->handle, CURLMOPT_SOCKETFUNCTION, on_socket_wanted);
    curl_multi_setopt(multi->handle, CURLMOPT_SOCKETDATA, multi);
    curl_multi_setopt(multi->handle, CURLMOPT_TIMERFUNCTION, on_timer_wanted);
    curl_multi_setopt(multi->handle, CURLMOPT_TIMERDATA, multi);
    return 0;
}

void multi_deinit(Multi *multi)
{
    if (!multi->handle)
        return;
    curl_multi_cleanup(multi->handle);
    loop_timer_cancel(&multi->timer);
    curl_global_cleanup();
    *multi = (Multi){0};
}
