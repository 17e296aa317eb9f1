/* Multi: libcurl's transfers on the loop. */
#pragma once

#include <curl/curl.h>

#include "proto/base/loop.h"

typedef struct Multi {
    Loop *loop;
    CURLM *handle;
    LoopTimer timer;
    void (*ended)(CURL *easy, CURLcode code); /* one of its transfers; it may be removed in there */
} Multi;

/* 0 or -ENOMEM. It stays where it is. */
int multi_init(Multi *multi, Loop *loop, void (*ended)(CURL *easy, CURLcode code));
/* When no transfer is left in it. */
void multi_deinit(Multi *multi);

/* As CURLOPT_OPENSOCKETFUNCTION: libcurl does not make its sockets close-on-exec. */
curl_socket_t multi_open_socket(void *userdata, curlsocktype purpose, struct curl_sockaddr *address);
