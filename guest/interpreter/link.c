#include "guest/interpreter/link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "guest/interpreter/namespace_names.h"
#include "guest/interpreter/output.h"
#include "guest/interpreter/runtime.h"
#include "guest/interpreter/values.h"

/* ---- the interpreter's own descriptors ---- */

/* A private duplicate, and which file it is. */
typedef struct Own {
    int fd;
    dev_t device;
    ino_t inode;
} Own;

/* A channel, two streams and the rings, and two to work with. */
#define SPARES 6

static struct {
    Own standard[3];
    int channel;
    int spare[SPARES];
} own = {.spare = {-1, -1, -1, -1, -1, -1}};

int descriptors_duplicate(int fd)
{
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 1000);

    if (high < 0 && errno == EINVAL)
        high = fcntl(fd, F_DUPFD_CLOEXEC, 100);
    return high < 0 ? -errno : high;
}

static void identify(Own *file)
{
    struct stat st;

    if (fstat(file->fd, &st) == 0) {
        file->device = st.st_dev;
        file->inode = st.st_ino;
    }
}

int descriptors_init(void)
{
    for (int fd = 0; fd < 3; fd++) {
        own.standard[fd].fd = descriptors_duplicate(fd);
        if (own.standard[fd].fd < 0)
            return own.standard[fd].fd;
        identify(&own.standard[fd]);
    }
    own.channel = descriptors_duplicate(CHANNEL_FD);
    if (own.channel < 0)
        return own.channel;
    close(CHANNEL_FD);
    descriptors_spare_keep();
    return 0;
}

void descriptors_spare_keep(void)
{
    for (int i = 0; i < SPARES; i++) {
        if (own.spare[i] < 0)
            own.spare[i] = descriptors_duplicate(own.standard[0].fd);
    }
}

void descriptors_spare_free(void)
{
    for (int i = 0; i < SPARES; i++)
        close_fd(&own.spare[i]);
}

int descriptors_stream(int fd)
{
    return own.standard[fd].fd;
}

int descriptors_channel(void)
{
    return own.channel;
}

static bool is_right(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && st.st_dev == own.standard[fd].device && st.st_ino == own.standard[fd].inode;
}

void descriptors_restore(void)
{
    for (int fd = 0; fd < 3; fd++) {
        if (!is_right(fd))
            dup2(own.standard[fd].fd, fd);
    }
}

void descriptors_mute(void)
{
    _cleanup_(closep) int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

    for (int stream = 1; fd >= 0 && stream <= 2; stream++)
        dup2(fd, stream);
}

bool descriptors_is_own(int fd)
{
    return fd <= STDERR_FILENO || fd == own.channel || fd == own.standard[0].fd || fd == own.standard[1].fd ||
           fd == own.standard[2].fd;
}

int descriptors_stream_of(dev_t device, ino_t inode)
{
    for (int fd = 1; fd <= 2; fd++) {
        if (own.standard[fd].device == device && own.standard[fd].inode == inode)
            return fd;
    }
    return 0;
}

static void stream_set(int fd, int source)
{
    dup3(source, own.standard[fd].fd, O_CLOEXEC);
    dup2(source, fd);
    identify(&own.standard[fd]);
}

static void channel_set(int channel)
{
    dup3(channel, own.channel, O_CLOEXEC);
    close(channel);
}

void descriptors_replace(const int fds[2])
{
    for (int i = 0; i < 2; i++) {
        if (fds[i] < 0)
            continue;
        stream_set(i + 1, fds[i]);
        close(fds[i]);
    }
}

void descriptors_detach(int channel)
{
    channel_set(channel); /* first: where a cell has closed 0, 1 or 2, it has that number */
    identify(&own.standard[0]);
    descriptors_restore();
    stream_set(1, own.standard[0].fd);
    stream_set(2, own.standard[0].fd);
}

void descriptors_attach(const int fds[CHANNEL_FDS])
{
    channel_set(fds[0]);
    descriptors_replace(fds + 1);
}

/* ---- messages that arrive ---- */

/* More than channel_reader_fill() asks for at the beginning of a message. */
#define RESERVE (64u << 10)

static ChannelReader reader = CHANNEL_READER_NULL;

int inbox_next(ChannelFrame *ret, int fds[CHANNEL_FDS])
{
    return channel_reader_next(&reader, descriptors_channel(), ret, fds);
}

static int take_message(ChannelFrame *ret)
{
    int fds[CHANNEL_FDS];
    int r = channel_reader_take(&reader, ret, fds);

    for (size_t i = 0; r > 0 && i < CHANNEL_FDS; i++)
        close_fd(&fds[i]);
    return r;
}

int inbox_wait(ChannelFrame *ret, int wake, const sigset_t *mask)
{
    struct pollfd files[] = {{.fd = descriptors_channel(), .events = POLLIN}, {.fd = wake, .events = POLLIN}};
    int r;

    while ((r = take_message(ret)) == 0) {
        if (ppoll(files, ARRAY_SIZE(files), NULL, mask) < 0)
            return -errno;
        if (files[1].revents)
            return -ECANCELED;
        r = channel_reader_fill(&reader, descriptors_channel());
        if (r < 0)
            return r;
    }
    return MIN(r, 0);
}

void inbox_reserve(void)
{
    buf_reserve(&reader.in, RESERVE);
}

bool inbox_is_empty(void)
{
    return reader.in.size == reader.used;
}

void inbox_clear(void)
{
    channel_reader_clear(&reader);
}

/* ---- messages that go ---- */

#define NAME_MAX_BYTES 1024u

static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

/* The lock is taken with the GIL held, so that what the caller has just seen of the cell still holds when it
 * is this message's turn. Who has the lock waits for the supervisor only, never for the GIL. -ECANCELED when
 * it does not hold. */
static int send_when(Buf *out, bool (*holds)(void))
{
    pthread_mutex_lock(&writing);
    bool send = holds();
    PyThreadState *saved = PyEval_SaveThread();
    int r = send ? channel_write(descriptors_channel(), out) : -ECANCELED;
    pthread_mutex_unlock(&writing);
    PyEval_RestoreThread(saved);
    return r;
}

static bool always(void)
{
    return true;
}

static int send_body(MessageKind kind, uint64_t id, const Schema *schema, const void *body)
{
    Buf out _cleanup_(buf_deinit) = REPLY_NULL;
    int r = channel_append(&out, kind, id, schema, body);

    return r < 0 ? r : send_when(&out, always);
}
/* A message of its own, a `type`. */
#define say(kind, id, type, from) send_body(kind, id, SCHEMA(type), (const type *){from})

void outcome_deinit(CellOutcome *outcome)
{
    Py_CLEAR(outcome->result);
    Py_CLEAR(outcome->error);
    Py_CLEAR(outcome->memory);
}

/* Absent where `list` is none. */
static Value plain(PyObject *list)
{
    return list && PyList_CheckExact(list) ? (Value){.write = write_made, .source = list} : (Value){0};
}

int reply_ready(uint64_t id, const Notes *not_restored, PyObject *memory)
{
    const char *version = Py_GetVersion();
    char peer[128];
    MsgReady said = {.not_restored = notes_encode(not_restored), .memory = plain(memory)};

    snprintf(peer, sizeof(peer), "limpet-interpreter/%s python/%.*s", LIMPET_VERSION,
             (int)strcspn(version, " "), version);
    said.peer = text_of(peer);
    return say(MSG_READY, id, MsgReady, &said);
}

/* The texts of a cell's end, and what they point to. */
typedef struct OutcomeTexts {
    StrText result, name, message, traceback;
    NameChanges changes;
} OutcomeTexts;

static void outcome_texts_deinit(OutcomeTexts *texts)
{
    str_text_deinit(&texts->result);
    str_text_deinit(&texts->name);
    str_text_deinit(&texts->message);
    str_text_deinit(&texts->traceback);
    name_changes_deinit(&texts->changes);
}

static void take_error(MsgPythonError *ret, OutcomeTexts *texts, PyObject *error)
{
    str_text(&texts->name, PyTuple_GET_ITEM(error, 0), NAME_MAX_BYTES, CUT_END);
    str_text(&texts->message, PyTuple_GET_ITEM(error, 1), LIMIT_TRACEBACK, CUT_MIDDLE);
    str_text(&texts->traceback, PyTuple_GET_ITEM(error, 2), LIMIT_TRACEBACK, CUT_MIDDLE);
    *ret = (MsgPythonError){texts->name.text, texts->message.text, texts->traceback.text};
}

int reply_send(Buf *reply)
{
    return send_when(reply, always);
}

int reply_executed(Buf *ret, uint64_t id, const CellOutcome *outcome)
{
    OutcomeTexts texts _cleanup_(outcome_texts_deinit);
    MsgCellExecuted said = {
        .has_error = outcome->error,
        .spawned = run.spawned,
        .cpu = outcome->cpu,
        .peak_memory = outcome->peak_memory,
    };

    texts.name = texts.message = texts.traceback = (StrText){0};
    str_text(&texts.result, outcome->result, LIMIT_RESULT, CUT_END);
    said.result = texts.result.text;
    if (outcome->error)
        take_error(&said.error, &texts, outcome->error);
    said.memory = plain(outcome->memory);
    names_collect(&texts.changes);
    said.has_changed = texts.changes.count > 0;
    said.changed = name_changes_encode(&texts.changes);
    return channel_say(ret, MSG_EXECUTED, id, MsgCellExecuted, &said);
}

int reply_namespace(uint64_t id)
{
    _pyref_ PyObject *listing = runtime_call(runtime.listing, 1, (PyObject *[]){runtime.main_dict});
    _pyref_ PyObject *none = PyList_New(0);
    PyObject *names = none;
    unsigned long long more = 0;

    if (!none || (listing && !PyArg_ParseTuple(listing, "OK", &names, &more)))
        PyErr_Clear();
    return say(MSG_NAMESPACE, id, MsgNamespace, (&(MsgNamespace){plain(names), more}));
}

int reply_prepared(uint64_t id, PyObject *failed, PyObject *error)
{
    OutcomeTexts texts _cleanup_(outcome_texts_deinit) = {0};
    _pyref_ PyObject *notes = runtime_call(runtime.labels, 1, &failed);
    MsgPrepared prepared = {.failed = plain(notes), .has_error = error};

    if (error)
        take_error(&prepared.error, &texts, error);
    return say(MSG_PREPARED, id, MsgPrepared, &prepared);
}

int reply_moved(MessageKind kind, uint64_t id, PyObject *error, PyObject *missing)
{
    StrText reason _cleanup_(str_text_deinit);
    _pyref_ PyObject *notes = runtime_call(runtime.labels, 1, &missing);
    MsgSavedCell moved = {.missing = plain(notes)};

    str_text(&reason, error, LIMIT_NOTE, CUT_END);
    moved.error = reason.text;
    return say(kind, id, MsgSavedCell, &moved);
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

/* A bundle in the making; both of a display share the budget. */
typedef struct Bundle {
    PyObject *dict;
    ValueBudget *budget;
} Bundle;

static void write_dict(Writer *w, const void *source)
{
    const Bundle *bundle = source;
    int r = write_bundle(w, bundle->dict, bundle->budget);

    if (r < 0)
        writer_fail(w, r);
}

static int encode_display(Buf *out, const Display *display, Value data, Value metadata)
{
    StrText id _cleanup_(str_text_deinit);
    MsgDisplay said = {
        .data = data,
        .metadata = metadata,
        .is_result = display->is_result,
        .update = display->update,
    };

    str_text(&id, display->id, NAME_MAX_BYTES, CUT_END);
    said.display_id = id.text;
    return channel_say(out, MSG_DISPLAY, run.id, MsgDisplay, &said);
}

static int build_display(Buf *out, const Display *display)
{
    ValueBudget budget = VALUE_BUDGET;
    const Bundle data = {display->data, &budget}, metadata = {display->metadata, &budget};

    return encode_display(out, display, (Value){.write = write_dict, .source = &data},
                          (Value){.write = write_dict, .source = &metadata});
}

static void write_left_out(Writer *w, const void *source)
{
    char note[128];

    snprintf(note, sizeof(note), "[display left out: its %zu bytes are over the limit of %u for one call]",
             *(const size_t *)source, LIMIT_DISPLAY_BYTES);
    write_map(w, 1);
    write_key(w, "text/plain");
    write_text(w, note);
}

static void write_no_metadata(Writer *w, const void *source)
{
    write_map(w, 0);
}

/* In place of a display that does not fit. */
static int build_note(Buf *out, const Display *display)
{
    size_t size = out->size;

    buf_clear(out);
    return encode_display(out, display, (Value){.write = write_left_out, .source = &size},
                          (Value){.write = write_no_metadata});
}

/* Prints the text of a display that belongs to no cell. */
static int print_text(const Display *display)
{
    PyObject *text = PyDict_GetItemString(display->data, "text/plain"); /* borrowed */

    if (!text || !PyUnicode_Check(text))
        return 0;
    _pyref_ PyObject *line = PyUnicode_FromFormat("%U\n", text);
    _pyref_ PyObject *bytes = line ? PyUnicode_AsEncodedString(line, "utf-8", "backslashreplace") : NULL;
    _pyref_ PyObject *done =
        bytes ? PyObject_CallMethod(stream_object(STDOUT_FILENO), "write", "O", bytes) : NULL;
    return done ? 0 : -1;
}

int reply_display(const Display *display)
{
    Buf out _cleanup_(buf_deinit) = REPLY_NULL;

    if (run.forked)
        return 0;
    if (!run.active)
        return print_text(display);

    int r = build_display(&out, display);
    if (r == -EINVAL) {
        PyErr_SetString(PyExc_ValueError, "the keys of display data and metadata are text");
        return -1;
    }
    if (r == -ENOBUFS || (r == 0 && out.size > LIMIT_DISPLAY_BYTES))
        r = build_note(&out, display);
    if (r < 0) {
        PyErr_NoMemory();
        return -1;
    }
    r = send_when(&out, run_is_active);
    return r == -ECANCELED ? print_text(display) : 0; /* without a supervisor there is nobody left to tell */
}

static int encode_ask(Buf *out, const Question *question)
{
    StrText name _cleanup_(str_text_deinit);
    MsgAsk said = {.ask = question->ask, .kind = text_of(question->kind)};

    str_text(&name, question->name, LIMIT_ASK, CUT_END);
    said.name = name.text;
    if (question->payload->size > 0)
        said.payload = (Text){(const char *)buf_head(question->payload), question->payload->size};
    return channel_say(out, MSG_ASK, run.id, MsgAsk, &said);
}

int reply_ask(const Question *question)
{
    Buf out _cleanup_(buf_deinit) = REPLY_NULL;
    int r = encode_ask(&out, question);

    if (r == 0)
        r = send_when(&out, run_is_active);
    if (r == -ECANCELED)
        return 0; /* the cell has ended, and with it the waiting for the answer */
    if (r == -ENOMEM)
        PyErr_NoMemory();
    else if (r < 0)
        PyErr_SetString(PyExc_RuntimeError, "the question cannot be sent: the supervisor is gone");
    return r < 0 ? -1 : 0;
}
