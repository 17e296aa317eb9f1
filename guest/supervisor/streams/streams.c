#include "guest/supervisor/streams/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "guest/supervisor/command_line.h"
#include "proto/base/fdio.h"
#include "proto/base/log.h"
#include "proto/limits.h"

/* ---- rings ---- */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

/* Kernels before 6.3 do not know MFD_NOEXEC_SEAL; later ones may insist on it. */
static int create(void)
{
    int fd = memfd_create("limpet-output", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("limpet-output", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd < 0 ? -errno : fd;
}

/* Seals the size: a file that is cut is SIGBUS for whoever reads it. */
static int seal(int fd)
{
    if (ftruncate(fd, sizeof(Rings)) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return -errno;
    return 0;
}

static int choose_nonces(Rings *rings)
{
    for (size_t i = 0; i < ARRAY_SIZE(rings->ring); i++) {
        uint8_t *nonce = rings->ring[i].nonce;

        if (getrandom(nonce, RING_NONCE, 0) != RING_NONCE)
            return -EIO;
        nonce[0] = RING_NONCE_FIRST;
    }
    return 0;
}

int rings_open(RingReader readers[2], int *ret_fd)
{
    _cleanup_(closep) int fd = create();
    int r = fd < 0 ? fd : seal(fd);

    if (r < 0)
        return r;

    Rings *rings = mmap(NULL, sizeof(Rings), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (rings == MAP_FAILED)
        return -errno;
    r = choose_nonces(rings);
    if (r < 0) {
        munmap(rings, sizeof(Rings));
        return r;
    }
    rings_close(readers);
    for (size_t i = 0; i < ARRAY_SIZE(rings->ring); i++) {
        readers[i] = (RingReader){.ring = &rings->ring[i]};
        memcpy(readers[i].nonce, rings->ring[i].nonce, RING_NONCE);
    }
    *ret_fd = take_fd(&fd);
    return 0;
}

void rings_close(RingReader readers[2])
{
    if (readers[0].ring)
        munmap(container_of(readers[0].ring, Rings, ring[0]), sizeof(Rings));
    readers[0] = readers[1] = RING_READER_NULL;
}

uint64_t ring_head(const RingReader *reader)
{
    if (!reader->ring)
        return reader->taken;

    uint64_t head = atomic_load_explicit(&reader->ring->head, memory_order_acquire);

    return head - reader->taken <= RING_SPACE ? head : reader->taken;
}

/* The position that a mark means: not before what was taken, not behind `head`. */
static uint64_t ring_position(const RingReader *reader, uint64_t marked, uint64_t head)
{
    if ((int64_t)(marked - reader->taken) <= 0)
        return reader->taken;
    return marked - reader->taken <= head - reader->taken ? marked : head;
}

/* `start` is that of the bytes before `until`: the writer changes it only while the ring is empty, and so not
 * before it has been told that they are taken. */
size_t ring_take(RingReader *reader, uint64_t until, uint8_t *ret, size_t room)
{
    size_t n = (size_t)MIN(until - reader->taken, (uint64_t)room);

    if (n == 0)
        return 0;

    uint64_t start = atomic_load_explicit(&reader->ring->start, memory_order_relaxed);
    size_t at = (size_t)((reader->taken - start) % RING_SPACE);
    size_t first = MIN(n, RING_SPACE - at);

    memcpy(ret, reader->ring->space + at, first);
    memcpy(ret + first, reader->ring->space, n - first);
    reader->taken += n;
    atomic_store_explicit(&reader->ring->tail, reader->taken, memory_order_release);
    return n;
}

/* ---- the merge of a pipe and a ring ---- */

/* Space that all merges share: there is one thread, and one merge at a time. */
static uint8_t piece[LIMIT_CHUNK];
static size_t piece_size;

static void deliver_piece(Merge *merge)
{
    size_t n = piece_size;

    piece_size = 0;
    if (n > 0)
        merge->on_data(merge, piece, n);
}

static void put(Merge *merge, const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        size_t part = MIN(n, sizeof(piece) - piece_size);

        memcpy(piece + piece_size, bytes, part);
        piece_size += part;
        bytes += part;
        n -= part;
        if (piece_size == sizeof(piece))
            deliver_piece(merge);
    }
}

static void put_ring(Merge *merge, uint64_t until)
{
    size_t n;

    while ((n = ring_take(merge->ring, until, piece + piece_size, sizeof(piece) - piece_size)) > 0) {
        piece_size += n;
        if (piece_size == sizeof(piece))
            deliver_piece(merge);
    }
}

/* The bytes before the first mark, or before what may be the beginning of one at the end. */
static size_t plain_size(const Merge *merge, const uint8_t *bytes, size_t n)
{
    const uint8_t *nonce = merge->ring->nonce;
    size_t begun = MIN(n, (size_t)RING_NONCE - 1);

    if (!merge->ring->ring)
        return n;

    const uint8_t *mark = memmem(bytes, n, nonce, RING_NONCE);
    if (mark)
        return (size_t)(mark - bytes);
    while (begun > 0 && memcmp(bytes + n - begun, nonce, begun) != 0)
        begun--;
    return n - begun;
}

static void hold(Merge *merge, const uint8_t *bytes, size_t n)
{
    memcpy(merge->held, bytes, n);
    merge->held_size = n;
}

size_t merge_recall(Merge *merge, uint8_t *ret)
{
    size_t n = merge->held_size;

    memcpy(ret, merge->held, n);
    merge->held_size = 0;
    return n;
}

/* Reads the head once, after the pipe: a writer fills the ring before it writes the mark, so every mark seen
 * here is covered. */
void merge_pipe(Merge *merge, const uint8_t *bytes, size_t n)
{
    uint64_t head = ring_head(merge->ring);
    size_t plain = plain_size(merge, bytes, n);

    if (plain == n) {
        merge->on_data(merge, bytes, n);
        return;
    }
    while (n - plain >= sizeof(RingMark)) {
        RingMark mark;

        memcpy(&mark, bytes + plain, sizeof(mark));
        put(merge, bytes, plain);
        put_ring(merge, ring_position(merge->ring, mark.position, head));
        bytes += plain + sizeof(mark);
        n -= plain + sizeof(mark);
        plain = plain_size(merge, bytes, n);
    }
    put(merge, bytes, plain);
    hold(merge, bytes + plain, n - plain);
    deliver_piece(merge);
}

void merge_rest(Merge *merge, uint64_t until)
{
    uint8_t held[sizeof(merge->held)];

    put(merge, held, merge_recall(merge, held));
    put_ring(merge, ring_position(merge->ring, until, ring_head(merge->ring)));
    deliver_piece(merge);
}

/* ---- the pipes ---- */

#define LATE_MAXIMUM (16u * STREAMS)

typedef struct LateStream {
    List link;
    Stream stream;
} LateStream;

static Stream *stream_of(PipeReader *reader)
{
    return container_of(reader, Stream, reader);
}

static size_t recall(PipeReader *reader, uint8_t *ret)
{
    return merge_recall(&stream_of(reader)->merge, ret);
}

static void on_read(PipeReader *reader, const uint8_t *bytes, size_t n)
{
    merge_pipe(&stream_of(reader)->merge, bytes, n);
}

static void on_merged(Merge *merge, const uint8_t *bytes, size_t n)
{
    Stream *stream = container_of(merge, Stream, merge);

    stream->owner->on_data(stream->owner, stream->reader.number, bytes, n);
}

/* Does nothing: a stream may be opened again. */
static void on_end(PipeReader *reader)
{
}

static void on_late_merged(Merge *merge, const uint8_t *bytes, size_t n)
{
    Stream *stream = container_of(merge, Stream, merge);

    stream->owner->on_late(stream->owner, stream->reader.number, bytes, n);
}

static void late_free(LateStream *late)
{
    late->stream.owner->late_count--;
    list_remove(&late->link);
    pipe_reader_close(&late->stream.reader);
    free(late);
}

static void on_late_end(PipeReader *reader)
{
    late_free(container_of(stream_of(reader), LateStream, stream));
}

static void stream_init(Stream *stream, Streams *owner, unsigned number)
{
    *stream = (Stream){
        .reader = {.number = number,
                   .fd = -1,
                   .widens = true,
                   .recall = recall,
                   .on_data = on_read,
                   .on_end = on_end},
        .merge = {.ring = &owner->rings[number - 1], .on_data = on_merged},
        .owner = owner,
    };
}

/* Without memory the read end is closed instead: a late writer then gets SIGPIPE. */
static void stream_retire(Stream *stream)
{
    Streams *streams = stream->owner;
    LateStream *late = stream->reader.fd >= 0 ? calloc(1, sizeof(*late)) : NULL;

    if (!late) {
        pipe_reader_close(&stream->reader);
        return;
    }
    stream_init(&late->stream, streams, stream->reader.number);
    late->stream.reader.on_end = on_late_end;
    late->stream.reader.widens = false;
    late->stream.merge = stream->merge; /* bytes that the interpreter itself wrote last may be a mark */
    late->stream.merge.on_data = on_late_merged;
    if (pipe_reader_open(&late->stream.reader, streams->loop, pipe_reader_release(&stream->reader)) < 0) {
        free(late);
        return;
    }
    list_append(&streams->late, &late->link);
    if (++streams->late_count > LATE_MAXIMUM)
        late_free(list_entry(list_first(&streams->late), LateStream, link));
}

void streams_init(Streams *streams, Loop *loop, void (*on_data)(Streams *, unsigned, const uint8_t *, size_t),
                  void (*on_late)(Streams *, unsigned, const uint8_t *, size_t))
{
    *streams = (Streams){.loop = loop, .on_data = on_data, .on_late = on_late};
    list_init(&streams->late);
    for (unsigned i = 0; i < STREAMS; i++)
        stream_init(&streams->current[i], streams, i + 1);
}

/* Only the read end does not block: the interpreter's writes wait. */
static int stream_open(Stream *stream, int *ret_write_end)
{
    int ends[2], r = pipe_for_program(ends, 1);

    if (r < 0)
        return r;
    stream_retire(stream);
    stream->merge.held_size = 0;
    r = pipe_reader_open(&stream->reader, stream->owner->loop, ends[0]);
    if (r < 0) {
        close(ends[1]);
        return r;
    }
    *ret_write_end = ends[1];
    return 0;
}

int streams_share(Streams *streams)
{
    int fd = -1;
    int r = rings_open(streams->rings, &fd);

    if (r < 0)
        log_warn("what is printed right before an interpreter dies may be lost", "error=%s", strerror(-r));
    return fd;
}

int streams_open(Streams *streams, int ret_write_ends[STREAMS])
{
    int ends[STREAMS] = {-1, -1};

    for (unsigned i = 0; i < STREAMS; i++) {
        int r = stream_open(&streams->current[i], &ends[i]);

        if (r < 0) {
            close_fd(&ends[0]);
            return r;
        }
    }
    memcpy(ret_write_ends, ends, sizeof(ends));
    return 0;
}

int streams_pause(Streams *streams, bool paused)
{
    int r = 0;

    for (unsigned i = 0; r == 0 && i < STREAMS; i++)
        r = pipe_reader_pause(&streams->current[i].reader, paused);
    return r;
}

/* Takes the ring as it was before the pipe is looked at: whoever goes on printing meanwhile may put something
 * into the pipe first. */
static void stream_drain(Stream *stream, bool pipe_too)
{
    uint64_t until = ring_head(stream->merge.ring);

    if (pipe_too)
        pipe_reader_drain(&stream->reader);
    merge_rest(&stream->merge, until);
}

void streams_drain(Streams *streams)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        stream_drain(&streams->current[i], true);
        pipe_reader_narrow(&streams->current[i].reader);
    }
}

void streams_drain_known(Streams *streams)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        const PipeReader *reader = &streams->current[i].reader;

        stream_drain(&streams->current[i], reader->paused || loop_file_is_due(&reader->file));
    }
}

/* Takes what a stream's ring holds, behind what was put into its pipe before. */
static void stream_look(Stream *stream)
{
    uint64_t until = ring_head(stream->merge.ring);

    if (until != stream->merge.ring->taken && pipe_reader_catch_up(&stream->reader))
        merge_rest(&stream->merge, until);
}

void streams_look(Streams *streams)
{
    for (unsigned i = 0; i < STREAMS; i++)
        stream_look(&streams->current[i]);
}

void streams_close(Streams *streams)
{
    LateStream *late;

    for (unsigned i = 0; i < STREAMS; i++)
        pipe_reader_close(&streams->current[i].reader);
    list_foreach (late, &streams->late, LateStream, link)
        late_free(late);
    rings_close(streams->rings);
}

/* ---- what is kept of a stream ---- */

int spill_open(Spill *spill, const char *session_directory)
{
    _cleanup_(closep) int session = open(session_directory, O_DIRECTORY | O_RDONLY | O_CLOEXEC);

    if (session < 0) {
        int r = -errno;
        log_error("cannot open the session's directory", "path=%s error=%s", session_directory, strerror(-r));
        return r;
    }
    *spill = SPILL_NONE;
    spill->directory = openat(session, ".limpet", O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (spill->directory < 0)
        log_warn("long output will not be stored", "path=%s/.limpet error=%s", session_directory,
                 strerror(errno));
    return 0;
}

void spill_close(Spill *spill)
{
    close_fd(&spill->directory);
}

void output_init(Output *output, size_t limit, const Spill *spill, const char *name)
{
    *output = (Output){.limit = limit, .spill = spill, .spill_fd = -1};
    snprintf(output->name, sizeof(output->name), "%s", name);
}

void output_deinit(Output *output)
{
    buf_deinit(&output->kept);
    output->kept = BUF_NULL;
    close_fd(&output->spill_fd);
}

static void spill_give_up(Output *output)
{
    output->spill_failed = true;
    if (output->spill_fd < 0)
        return;
    close_fd(&output->spill_fd);
    unlinkat(output->spill->directory, output->name, 0);
}

static void spill_write(Output *output, const uint8_t *bytes, size_t n)
{
    if (output->spill_failed)
        return;
    n = (size_t)MIN(n, output->spill->limit - output->spilled);
    output->spilled += n;
    if (write_all(output->spill_fd, bytes, n) < 0)
        spill_give_up(output);
}

/* Creates the spill file and moves what was kept so far into it. */
static void spill_begin(Output *output)
{
    const char *name = output->name;

    if (output->spill_fd >= 0 || output->spill_failed)
        return;
    if (output->spill->directory < 0) {
        output->spill_failed = true;
        return;
    }
    /* A file that is already there may be a trap. It goes, and only a new one will do. */
    unlinkat(output->spill->directory, name, 0);
    output->spill_fd =
        openat(output->spill->directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (output->spill_fd < 0)
        spill_give_up(output);
    else
        spill_write(output, buf_head(&output->kept), output->kept.size);
}

void output_write(Output *output, const uint8_t *bytes, size_t n)
{
    size_t room = output->limit - output->kept.size;
    bool all_kept = output->total == output->kept.size;
    size_t kept = all_kept ? MIN(n, room) : 0;

    if (buf_append(&output->kept, bytes, kept) < 0)
        kept = 0;
    output->total += n;
    if (kept == n)
        return;
    if (all_kept)
        spill_begin(output);
    if (output->spill_fd >= 0)
        spill_write(output, bytes + kept, n - kept);
}

/* The size without an incomplete character at the end. */
static size_t complete_size(const uint8_t *bytes, size_t size)
{
    for (size_t back = 1; back <= MIN(size, 3u); back++) {
        uint8_t lead = bytes[size - back];
        size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;

        if (lead < 0x80)
            return size;
        if (lead >= 0xC0)
            return length > back ? size - back : size;
    }
    return size;
}

/* The size, at most `limit`, at which valid UTF-8 can be cut. */
static size_t cut_size(const uint8_t *text, size_t limit)
{
    while (limit > 0 && (text[limit] & 0xC0) == 0x80)
        limit--;
    return limit;
}

int output_text(Output *output, Buf *text)
{
    size_t start = text->size;
    size_t size = output->kept.size;

    /* The last character kept may be incomplete when more was written. Alone it would decode to U+FFFD. */
    if (output->total > size)
        size = complete_size(buf_head(&output->kept), size);

    int r = utf8_append_replaced(text, buf_head(&output->kept), size);
    if (r < 0)
        return r;

    size_t decoded = text->size - start;
    if (decoded > output->limit)
        text->size = start + cut_size(buf_head(text) + start, output->limit);
    output->truncated = decoded > output->limit || output->total > output->kept.size;
    if (output->truncated)
        spill_begin(output);
    return 0;
}

bool output_file(const Output *output, char *ret, size_t size)
{
    if (output->spill_fd < 0)
        return false;
    snprintf(ret, size, SESSION_PATH "/.limpet/%s", output->name);
    return true;
}

/* ---- both streams of one writer ---- */

void outputs_init(Output outputs[OUTPUTS], const OutputLimits *limits, const char *stem)
{
    static const char *const names[OUTPUTS] = {"stdout", "stderr"};
    char name[SPILL_NAME];

    for (unsigned i = 0; i < OUTPUTS; i++) {
        snprintf(name, sizeof(name), "%s.%s", stem, names[i]);
        output_init(&outputs[i], limits->output, &limits->spill, name);
    }
}

void outputs_deinit(Output outputs[OUTPUTS])
{
    for (unsigned i = 0; i < OUTPUTS; i++)
        output_deinit(&outputs[i]);
}

void output_words_deinit(OutputWords *words)
{
    for (unsigned i = 0; i < OUTPUTS; i++)
        buf_deinit(&words->text[i]);
}

/* The text of a stream, and the path of all of it where it was cut. */
static int say_stream(Text *ret_text, Text *ret_file, Output *output, Buf *text, char *file)
{
    int r = output_text(output, text);

    *ret_text = text->size > 0 ? (Text){(const char *)buf_head(text), text->size} : (Text){"", 0};
    if (output->truncated && output_file(output, file, SPILL_PATH))
        *ret_file = text_of(file);
    return r;
}

int outputs_say(MsgExecuted *record, Output outputs[OUTPUTS], OutputWords *ret)
{
    int r = say_stream(&record->out, &record->stdout_file, &outputs[0], &ret->text[0], ret->file[0]);

    if (r == 0)
        r = say_stream(&record->err, &record->stderr_file, &outputs[1], &ret->text[1], ret->file[1]);
    record->stdout_bytes = outputs[0].total;
    record->stderr_bytes = outputs[1].total;
    record->truncated = outputs[0].truncated || outputs[1].truncated;
    return r;
}

int outputs_say_between(MsgExecuted *record, const Output between[OUTPUTS], OutputWords *ret)
{
    MsgBetween *said = &record->between;
    Text *words[OUTPUTS] = {&said->out, &said->err};

    said->dropped = 0;
    for (unsigned i = 0; i < OUTPUTS; i++) {
        const Buf *kept = &between[i].kept;
        Buf *text = &ret->text[i];
        int r = utf8_append_replaced(text, buf_head(kept), kept->size);

        if (r < 0)
            return r;
        *words[i] = text->size > 0 ? (Text){(const char *)buf_head(text), text->size} : (Text){"", 0};
        said->dropped += between[i].total - kept->size;
        record->has_between |= between[i].total > 0;
    }
    return 0;
}
