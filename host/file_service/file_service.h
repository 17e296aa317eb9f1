/* FileService: keeps the files of sessions. Whatever opens a directory that sandboxed code writes to happens
 * here, in answer to a request (protocol.h); the directories, what is known of their files and what watches
 * them stay here, under the ids of the sessions. Who asks is believed no more than a client is: an id is one
 * plain name, a path leads nowhere but below its session's directory, and a number is within its limits. */
#pragma once

#include "host/file_service/protocol.h"
#include "proto/base/buf.h"
#include "proto/base/loop.h"

typedef struct FileService FileService;

typedef struct FileServiceConfig {
    const char *state_dir;
    bool has_disks; /* disks may be mounted */
    /* The answer to the request of that number, which is taken over with its descriptors; empty when there
     * was no memory for it. May be called before file_service_take() returns. */
    void (*answer)(void *userdata, uint64_t id, Buf *answer, Descriptors *descriptors);
    void *userdata;
} FileServiceConfig;

int file_service_new(FileService **ret, Loop *loop, const FileServiceConfig *config);

/* Waits for what is under way, answering it, and forgets everything; all stays where it is. */
FileService *file_service_free(FileService *file_service);
DEFINE_CLEANUP(FileService *, file_service_free);

/* Returns the number of requests under way. */
size_t file_service_jobs(const FileService *file_service);

/* Does what an encoded request asks for, which is taken over with the descriptor that it needs. 0, and it is
 * answered now or later; or -EPROTO with the problem set for bytes that are no message, which has no number
 * to be answered by. */
int file_service_take(FileService *file_service, Buf *request, Descriptors *descriptors, Problem *problem);
