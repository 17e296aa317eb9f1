#include "guest/interpreter/reply.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "guest/interpreter/descriptors.h"
#include "guest/interpreter/namespace/changed.h"
#include "guest/interpreter/namespace/label.h"
#include "guest/interpreter/namespace/namespace.h"
#include "guest/interpreter/pyvalue.h"
#include "guest/interpreter/run.h"
#include "guest/interpreter/text.h"

#define NAME_MAX_BYTES 1024u

static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

/* A message under construction, framed. */
typedef struct Out {
    Buf buf;
    size_t mark;
    Writer writer;
} Out;

static void out_deinit(Out *out)
{
    buf_deinit(&out->buf);
}

static int out_begin(Out *out, MessageKind kind, uint64_t id, size_t fields)
{
    *out = (Out){.buf.limit = LIMIT_GUEST_FRAME};
    int r = channel_frame_begin(&out->buf, &out->mark);

    if (r == 0)
        writer_message(&out->writer, &out->buf, kind, id, fields);
    return r;
}

/* The lock is taken with the GIL held, so that what the caller has just seen of the cell still holds when it
 * is this message's turn. Who has the lock waits for the supervisor only, never for the GIL. */
static int out_send_when(Out *out, bool (*holds)(void))
{
    int r = writer_finish(&out->writer);

    if (r < 0)
        return r;
    channel_frame_end(&out->buf, out->mark);
    pthread_mutex_lock(&writing);
    bool send = holds();
    PyThreadState *saved = PyEval_SaveThread();
    r = send ? channel_write(descriptors_channel(), &out->buf) : 0;
    pthread_mutex_unlock(&writing);
    PyEval_RestoreThread(saved);
    return r;
}

static bool always(void)
{
    return true;
}

static int out_send(Out *out)
{
    return out_send_when(out, always);
}

void outcome_deinit(Outcome *outcome)
{
    Py_CLEAR(outcome->result);
    Py_CLEAR(outcome->error);
}

int reply_ready(uint64_t id, const Notes *not_restored)
{
    Out out _cleanup_(out_deinit);
    const char *version = Py_GetVersion();
    char peer[128];
    int r = out_begin(&out, MSG_READY, id, 2);

    if (r < 0)
        return r;
    snprintf(peer, sizeof(peer), "limpet-interpreter/%s python/%.*s", LIMPET_VERSION,
             (int)strcspn(version, " "), version);
    write_key(&out.writer, "peer");
    write_text(&out.writer, peer);
    write_key(&out.writer, "not_restored");
    notes_write(not_restored, &out.writer);
    return out_send(&out);
}

static void write_error(Writer *w, PyObject *error)
{
    if (!error) {
        write_nil(w);
        return;
    }
    write_map(w, 3);
    write_key(w, "name");
    write_str(w, PyTuple_GET_ITEM(error, 0), NAME_MAX_BYTES, CUT_END);
    write_key(w, "message");
    write_str(w, PyTuple_GET_ITEM(error, 1), LIMIT_TRACEBACK, CUT_MIDDLE);
    write_key(w, "traceback");
    write_str(w, PyTuple_GET_ITEM(error, 2), LIMIT_TRACEBACK, CUT_MIDDLE);
}

int reply_executed(uint64_t id, const Outcome *outcome)
{
    Out out _cleanup_(out_deinit);
    int r = out_begin(&out, MSG_EXECUTED, id, 6);

    if (r < 0)
        return r;
    write_key(&out.writer, "result");
    write_str(&out.writer, outcome->result, LIMIT_RESULT, CUT_END);
    write_key(&out.writer, "changed");
    write_changed(&out.writer);
    write_key(&out.writer, "error");
    write_error(&out.writer, outcome->error);
    write_key(&out.writer, "spawned");
    write_bool(&out.writer, run.spawned);
    write_key(&out.writer, "cpu");
    write_double(&out.writer, outcome->cpu);
    write_key(&out.writer, "peak_memory");
    write_uint(&out.writer, outcome->peak_memory);
    return out_send(&out);
}

int reply_namespace(uint64_t id)
{
    Out out _cleanup_(out_deinit);
    int r = out_begin(&out, MSG_NAMESPACE, id, 2);

    if (r < 0)
        return r;
    write_namespace(&out.writer);
    return out_send(&out);
}

int reply_prepared(uint64_t id, PyObject *failed)
{
    Out out _cleanup_(out_deinit);
    int r = out_begin(&out, MSG_PREPARED, id, 1);

    if (r < 0)
        return r;
    write_key(&out.writer, "failed");
    write_array(&out.writer, (size_t)PyList_GET_SIZE(failed));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(failed); i++)
        write_label_of(&out.writer, PyList_GET_ITEM(failed, i));
    return out_send(&out);
}

static void write_or_note(Writer *w, PyObject *value, ValueBudget *budget)
{
    size_t mark = w->buf->size;
    ValueBudget before = *budget;
    const char *why = write_value(w, value, budget);
    char note[128];

    if (!why)
        return;
    w->buf->size = mark;
    *budget = before;
    snprintf(note, sizeof(note), "[left out: %s]", why);
    write_text(w, note);
}

/* A MIME bundle: keys that are not text cannot be in it. */
static int write_bundle(Writer *w, PyObject *bundle, ValueBudget *budget)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;

    if ((size_t)PyDict_GET_SIZE(bundle) > budget->keys)
        return -EINVAL;
    budget->keys -= (size_t)PyDict_GET_SIZE(bundle);
    write_map(w, (size_t)PyDict_GET_SIZE(bundle));
    while (PyDict_Next(bundle, &at, &key, &value)) {
        Py_ssize_t size;
        const char *text = PyUnicode_CheckExact(key) ? PyUnicode_AsUTF8AndSize(key, &size) : NULL;
        if (!text)
            return -EINVAL;
        write_text_n(w, text, (size_t)size);
        write_or_note(w, value, budget);
    }
    return 0;
}

static void write_display_rest(Writer *w, const Display *display)
{
    write_key(w, "display_id");
    write_str(w, display->id, NAME_MAX_BYTES, CUT_END);
    write_key(w, "is_result");
    write_bool(w, display->is_result);
    write_key(w, "update");
    write_bool(w, display->update);
}

static int write_display(Writer *w, const Display *display)
{
    ValueBudget budget = VALUE_BUDGET;

    write_key(w, "data");
    int r = write_bundle(w, display->data, &budget);
    if (r < 0)
        return r;
    write_key(w, "metadata");
    r = write_bundle(w, display->metadata, &budget);
    write_display_rest(w, display);
    return r < 0 ? r : writer_finish(w);
}

static int begin_display(Out *out)
{
    return out_begin(out, MSG_DISPLAY, run.id, 5);
}

/* In place of a display that does not fit. */
static int build_note(Out *out, const Display *display, size_t size)
{
    char note[128];

    out_deinit(out);
    if (begin_display(out) < 0)
        return -ENOMEM;
    snprintf(note, sizeof(note), "[display left out: its %zu bytes are over the limit of %u for one call]",
             size, LIMIT_DISPLAY_BYTES);
    write_key(&out->writer, "data");
    write_map(&out->writer, 1);
    write_key(&out->writer, "text/plain");
    write_text(&out->writer, note);
    write_key(&out->writer, "metadata");
    write_map(&out->writer, 0);
    write_display_rest(&out->writer, display);
    return writer_finish(&out->writer);
}

int reply_display(const Display *display)
{
    Out out _cleanup_(out_deinit) = {0};

    if (run.forked || !run_admits() || run.displays >= LIMIT_DISPLAYS)
        return 0;

    int r = begin_display(&out);
    if (r == 0)
        r = write_display(&out.writer, display);
    if (r == -EINVAL) {
        PyErr_SetString(PyExc_ValueError, "the keys of display data and metadata are text");
        return -1;
    }
    if (r == -ENOBUFS || (r == 0 && run.display_bytes + out.buf.size > LIMIT_DISPLAY_BYTES))
        r = build_note(&out, display, out.buf.size);
    if (r < 0) {
        PyErr_NoMemory();
        return -1;
    }
    run.displays++;
    run.display_bytes += out.buf.size;
    out_send_when(&out, run_admits); /* without a supervisor there is nobody left to tell */
    return 0;
}

int reply_ask(const Question *question)
{
    Out out _cleanup_(out_deinit);
    int r = out_begin(&out, MSG_ASK, run.id, 4);

    if (r == 0) {
        write_key(&out.writer, "ask");
        write_uint(&out.writer, question->ask);
        write_key(&out.writer, "kind");
        write_text(&out.writer, question->kind);
        write_key(&out.writer, "name");
        write_str(&out.writer, question->name, LIMIT_ASK, CUT_END);
        write_key(&out.writer, "payload");
        if (question->payload->size > 0)
            write_bytes(&out.writer, buf_head(question->payload), question->payload->size);
        else
            write_nil(&out.writer);
        r = out_send_when(&out, run_admits);
    }
    if (r == -ENOMEM)
        PyErr_NoMemory();
    else if (r < 0)
        PyErr_SetString(PyExc_RuntimeError, "the question cannot be sent: the supervisor is gone");
    return r < 0 ? -1 : 0;
}
