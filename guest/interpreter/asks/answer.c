#include "guest/interpreter/asks/answer.h"

#include <errno.h>

#include "guest/interpreter/pyobject.h"
#include "proto/wire.h"

typedef struct Failure {
    Text name, message;
} Failure;

typedef struct Answer {
    uint64_t ask;
    Text payload;
    const msgpack_object_map *error;
} Answer;

static const Field answer_fields[] = {
    FIELD(FIELD_UINT, Answer, ask, true, 0),
    FIELD(FIELD_BYTES, Answer, payload, false, LIMIT_ASK),
    FIELD(FIELD_MAP, Answer, error, false, 0),
};

static const Field failure_fields[] = {
    FIELD(FIELD_TEXT, Failure, name, true, LIMIT_ASK),
    FIELD(FIELD_TEXT, Failure, message, false, LIMIT_ASK),
};

static PyObject *make_error(const Failure *failure)
{
    return Py_BuildValue("((s#s#)O)", failure->name.data, (Py_ssize_t)failure->name.size,
                         failure->message.data, (Py_ssize_t)failure->message.size, Py_None);
}

static PyObject *make_value(Text payload)
{
    const char *why;
    _pyref_ PyObject *value = object_decode(payload.data, payload.size, &why);

    if (value)
        return Py_BuildValue("(OO)", Py_None, value);
    PyErr_Clear();
    return Py_BuildValue("((ss)O)", "ValueError", why, Py_None);
}

static int decode(const ChannelFrame *frame, Message *message, Answer *ret, Failure *ret_failure)
{
    Problem problem = PROBLEM_NULL;
    int r = message_decode(message, frame->data, frame->size, &problem);

    if (r < 0)
        return r;
    if (message->kind != MSG_ANSWER)
        return -EPROTO;
    r = fields_decode(ret, answer_fields, ARRAY_SIZE(answer_fields), &message->body, &problem);
    if (r < 0 || !ret->error)
        return r;
    return fields_decode(ret_failure, failure_fields, ARRAY_SIZE(failure_fields), ret->error, &problem);
}

int answer_decode(const ChannelFrame *frame, uint64_t *ret_ask, PyObject **ret_answer)
{
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Answer answer = {.payload = {"\xc0", 1}};
    Failure failure = {.message = {"", 0}};
    int r = decode(frame, &message, &answer, &failure);

    if (r < 0)
        return r;
    /* A collection may run a finalizer of the cells', which might ask, and read over the frame. */
    int collecting = PyGC_Disable();
    PyObject *made = answer.error ? make_error(&failure) : make_value(answer.payload);
    if (collecting)
        PyGC_Enable();
    if (!made) {
        PyErr_Clear();
        return -ENOMEM;
    }
    *ret_ask = answer.ask;
    *ret_answer = made;
    return 0;
}
