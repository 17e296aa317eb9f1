/* Requests to a file service, encoded, and what an answer says. */
#pragma once

#include <errno.h>

#include "host/file_service/protocol.h"

/* The struct of a request. */
#define FILE_SERVICE_REQUEST(kind) __typeof__(((JobRequest *)NULL)->as_##kind)

/* A request that can be encoded; one for which that cannot be is refused without that. */
static inline Buf file_service_request(JobKind kind, uint64_t id, const void *request)
{
    Buf bytes = BUF_NULL;

    assert_int_equal(message_append(&bytes, (MessageKind)kind, id, job_type(kind)->request(), request), 0);
    return bytes;
}

/* ERR_NONE when it was done. */
static inline ErrorCode file_service_answer_error(const Message *message)
{
    Problem problem = PROBLEM_NULL;
    JobFailed failed;

    if ((JobKind)message->kind == JOB_DONE)
        return ERR_NONE;
    assert_int_equal((JobKind)message->kind, JOB_FAILED);
    assert_int_equal(body_decode(&failed, JobFailed, &message->body, &problem), 0);
    assert_true(failed.text.size > 0);
    return (ErrorCode)failed.code;
}
