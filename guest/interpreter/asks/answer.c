#include "guest/interpreter/asks/answer.h"

#include <errno.h>

#include "guest/interpreter/pyobject.h"
#include "proto/schema.h"

static PyObject *make_error(const MsgAnswerError *error)
{
    return Py_BuildValue("((s#s#)O)", error->name.data, (Py_ssize_t)error->name.size, error->message.data,
                         (Py_ssize_t)error->message.size, Py_None);
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

static int decode(const ChannelFrame *frame, Message *message, MsgAnswer *ret)
{
    Problem problem = PROBLEM_NULL;
    int r = message_decode(message, frame->data, frame->size, &problem);

    if (r < 0)
        return r;
    if (message->kind != MSG_ANSWER)
        return -EPROTO;
    r = body_decode(ret, MsgAnswer, &message->body, &problem);
    if (r == 0 && !ret->payload.data)
        ret->payload = (Text){"\xc0", 1}; /* nil */
    return r;
}

int answer_decode(const ChannelFrame *frame, uint64_t *ret_ask, PyObject **ret_answer)
{
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    MsgAnswer answer;
    int r = decode(frame, &message, &answer);

    if (r < 0)
        return r;
    /* A collection may run a finalizer of the cells', which might ask, and read over the frame. */
    int collecting = PyGC_Disable();
    PyObject *made = answer.has_error ? make_error(&answer.error) : make_value(answer.payload);
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
