#include "host/engine/docker_http.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "proto/base/clock.h"

#define BODY_LIMIT      (4u << 20)
#define URL_SIZE        1024
#define CONNECT_SECONDS 5L

struct DockerHttp {
    Loop *loop;
    CURLM *multi;
    LoopTimer timer;
    char *socket;
    struct curl_slist *headers;
    List calls;
};

struct DockerCall {
    DockerHttp *http;
    List link;
    CURL *easy;
    Buf answer;
    DockerDone done;
    void *userdata;
    char failure[CURL_ERROR_SIZE];
};

/* Requests */

static size_t on_body(char *bytes, size_t size, size_t count, void *userdata)
{
    return buf_append(userdata, bytes, size * count) < 0 ? 0 : size * count;
}

/* libcurl does not make its sockets close-on-exec. */
static curl_socket_t open_socket(void *userdata, curlsocktype purpose, struct curl_sockaddr *address)
{
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static int make_request(const char *socket_path, const char *path, double seconds, Buf *answer, CURL **ret)
{
    char url[URL_SIZE];
    CURL *easy;

    if (*socket_path == '\0') /* libcurl would go to the network instead */
        return -ENOENT;
    if ((size_t)snprintf(url, sizeof(url), "http://docker%s", path) >= sizeof(url))
        return -ENAMETOOLONG;
    easy = curl_easy_init();
    if (!easy)
        return -ENOMEM;
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, socket_path);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(seconds * 1000));
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, answer);
    *ret = easy;
    return 0;
}

static void call_free(DockerCall *call)
{
    list_remove(&call->link);
    if (call->easy)
        curl_multi_remove_handle(call->http->multi, call->easy);
    curl_easy_cleanup(call->easy);
    buf_deinit(&call->answer);
    free(call);
}

void docker_call_cancel(DockerCall *call)
{
    call_free(call);
}

static void set_method(DockerCall *call, const char *method, const char *body)
{
    curl_easy_setopt(call->easy, CURLOPT_PRIVATE, call);
    curl_easy_setopt(call->easy, CURLOPT_ERRORBUFFER, call->failure);
    if (strcmp(method, "POST") == 0) {
        curl_easy_setopt(call->easy, CURLOPT_POST, 1L);
        curl_easy_setopt(call->easy, CURLOPT_COPYPOSTFIELDS, body ? body : "");
        curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->http->headers);
    } else if (strcmp(method, "GET") != 0) {
        curl_easy_setopt(call->easy, CURLOPT_CUSTOMREQUEST, method);
    }
}

int docker_http_start(DockerHttp *http, const char *method, const char *path, const char *body,
                      double seconds, DockerDone done, void *userdata, DockerCall **ret)
{
    DockerCall *call = calloc(1, sizeof(*call));
    int r;

    if (!call)
        return -ENOMEM;
    *call = (DockerCall){.http = http, .answer.limit = BODY_LIMIT, .done = done, .userdata = userdata};
    list_append(&http->calls, &call->link);
    r = make_request(http->socket, path, seconds, &call->answer, &call->easy);
    if (r == 0) {
        set_method(call, method, body);
        r = curl_multi_add_handle(http->multi, call->easy) == CURLM_OK ? 0 : -ENOMEM;
    }
    if (r < 0) {
        call_free(call);
        return r;
    }
    *ret = call;
    return 0;
}

/* Answers */

static void finish(DockerCall *call, CURLcode code)
{
    DockerReply reply = {.body = (const char *)buf_head(&call->answer), .size = call->answer.size};

    if (code == CURLE_OK)
        curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &reply.status);
    else
        reply.failure = *call->failure ? call->failure : curl_easy_strerror(code);
    /* Out of the list, so that the callback may do with the other calls what it likes. */
    list_remove(&call->link);
    call->done(call->userdata, &reply);
    call_free(call);
}

static void finish_ended(DockerHttp *http)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(http->multi, &left))) {
        DockerCall *call;
        CURLcode code = message->data.result;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&call);
        finish(call, code);
    }
}

/* libcurl on the loop: it says which sockets and which timer it wants watched. */

typedef struct Watched {
    LoopFile file;
    DockerHttp *http;
} Watched;

static void on_socket_ready(LoopFile *file, uint32_t events)
{
    DockerHttp *http = container_of(file, Watched, file)->http;
    int action = (events & EPOLLIN ? CURL_CSELECT_IN : 0) | (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                 (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
    int running;

    curl_multi_socket_action(http->multi, file->fd, action, &running);
    finish_ended(http);
}

static void unwatch(DockerHttp *http, Watched *watched, curl_socket_t socket)
{
    if (!watched)
        return;
    loop_file_remove(&watched->file);
    free(watched);
    curl_multi_assign(http->multi, socket, NULL);
}

static int watch(DockerHttp *http, curl_socket_t socket, uint32_t events)
{
    Watched *watched = calloc(1, sizeof(*watched));

    if (!watched)
        return -1;
    watched->http = http;
    if (loop_file_add(http->loop, &watched->file, socket, events, on_socket_ready) < 0) {
        free(watched);
        return -1;
    }
    curl_multi_assign(http->multi, socket, watched);
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
    DockerHttp *http = container_of(timer, DockerHttp, timer);
    int running;

    curl_multi_socket_action(http->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    finish_ended(http);
}

static int on_timer_wanted(CURLM *multi, long milliseconds, void *userdata)
{
    DockerHttp *http = userdata;

    if (milliseconds < 0) {
        loop_timer_cancel(&http->timer);
        return 0;
    }
    return loop_timer_set(http->loop, &http->timer, clock_now() + (uint64_t)milliseconds * NSEC_PER_MSEC,
                          on_timer_due) < 0
               ? -1
               : 0;
}

int docker_http_new(Loop *loop, const char *socket, DockerHttp **ret)
{
    DockerHttp *http = calloc(1, sizeof(*http));

    if (!http)
        return -ENOMEM;
    http->loop = loop;
    list_init(&http->calls);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    http->socket = strdup(socket);
    http->multi = curl_multi_init();
    /* An empty Expect: libcurl would wait for a "continue" before it sends a larger body. */
    http->headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (!http->socket || !http->multi || !http->headers || !curl_slist_append(http->headers, "Expect:")) {
        docker_http_free(http);
        return -ENOMEM;
    }
    curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, on_socket_wanted);
    curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
    curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, on_timer_wanted);
    curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
    *ret = http;
    return 0;
}

DockerHttp *docker_http_free(DockerHttp *http)
{
    List *link;

    if (!http)
        return NULL;
    while ((link = list_first(&http->calls)))
        call_free(list_entry(link, DockerCall, link));
    curl_multi_cleanup(http->multi);
    loop_timer_cancel(&http->timer);
    curl_slist_free_all(http->headers);
    curl_global_cleanup();
    free(http->socket);
    free(http);
    return NULL;
}

/* Blocking */

static size_t on_header(char *bytes, size_t size, size_t count, void *userdata)
{
    static const char name[] = "Api-Version:";
    char *version = userdata;
    size_t length = size * count;

    if (length > sizeof(name) && strncasecmp(bytes, name, sizeof(name) - 1) == 0) {
        char line[64];

        snprintf(line, sizeof(line), "%.*s", (int)(length - sizeof(name) + 1), bytes + sizeof(name) - 1);
        if (sscanf(line, " %15s", version) != 1)
            *version = '\0';
    }
    return length;
}

long docker_http_get(const char *socket, const char *path, double seconds, Buf *body, char *api_version)
{
    CURL *easy;
    CURLcode code;
    long status = 0;
    int r;

    curl_global_init(CURL_GLOBAL_DEFAULT);
    body->limit = BODY_LIMIT;
    r = make_request(socket, path, seconds, body, &easy);
    if (r == 0) {
        if (api_version) {
            *api_version = '\0';
            curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
            curl_easy_setopt(easy, CURLOPT_HEADERDATA, api_version);
        }
        code = curl_easy_perform(easy);
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        r = code == CURLE_OK ? 0 : code == CURLE_OPERATION_TIMEDOUT ? -ETIMEDOUT : -ECONNREFUSED;
        curl_easy_cleanup(easy);
    }
    curl_global_cleanup();
    return r < 0 ? r : status;
}
