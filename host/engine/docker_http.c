#include "host/engine/docker_http.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "host/http/multi.h"

#define BODY_LIMIT      (4u << 20)
#define URL_SIZE        1024
#define CONNECT_SECONDS 5L
#define PING_SECONDS    3.0

#define API_MOST 51u /* the newest version 1.N that this was written for */

struct DockerHttp {
    Multi multi;
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

/* ---- requests ---- */

static size_t on_body(char *bytes, size_t size, size_t count, void *userdata)
{
    return buf_append(userdata, bytes, size * count) < 0 ? 0 : size * count;
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
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, multi_open_socket);
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
        curl_multi_remove_handle(call->http->multi.handle, call->easy);
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
        r = curl_multi_add_handle(http->multi.handle, call->easy) == CURLM_OK ? 0 : -ENOMEM;
    }
    if (r < 0) {
        call_free(call);
        return r;
    }
    *ret = call;
    return 0;
}

/* ---- answers ---- */

static void finish(CURL *easy, CURLcode code)
{
    DockerCall *call;
    DockerReply reply;

    curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&call);
    reply = (DockerReply){.body = (const char *)buf_head(&call->answer), .size = call->answer.size};
    if (code == CURLE_OK)
        curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &reply.status);
    else
        reply.failure = *call->failure ? call->failure : curl_easy_strerror(code);
    /* Out of the list, so that the callback may do with the other calls what it likes. */
    list_remove(&call->link);
    call->done(call->userdata, &reply);
    call_free(call);
}

int docker_http_new(Loop *loop, const char *socket, DockerHttp **ret)
{
    DockerHttp *http = calloc(1, sizeof(*http));
    int r;

    if (!http)
        return -ENOMEM;
    list_init(&http->calls);
    r = multi_init(&http->multi, loop, finish);
    http->socket = strdup(socket);
    /* An empty Expect: libcurl would wait for a "continue" before it sends a larger body. */
    http->headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (r < 0 || !http->socket || !http->headers || !curl_slist_append(http->headers, "Expect:")) {
        docker_http_free(http);
        return -ENOMEM;
    }
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
    multi_deinit(&http->multi);
    curl_slist_free_all(http->headers);
    free(http->socket);
    free(http);
    return NULL;
}

/* ---- blocking ---- */

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

int docker_http_negotiate(const char *socket, char version[static 16], unsigned *ret_minor)
{
    Buf body = BUF_NULL;
    long status = docker_http_get(socket, "/_ping", PING_SECONDS, &body, version);
    unsigned major, minor;

    buf_deinit(&body);
    if (status != 200)
        return status < 0 ? (int)status : -EPROTO;
    if (sscanf(version, "%u.%u", &major, &minor) != 2 || major != 1 || minor < DOCKER_API_LEAST)
        return -EPROTONOSUPPORT;
    *ret_minor = MIN(minor, API_MOST);
    return 0;
}
