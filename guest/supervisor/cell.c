#include "guest/supervisor/cell.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/clock.h"

/* Kept back while the cell runs, so that what the pipes hold at its end can still be sent: one event each. */
#define CREDIT_RESERVE STREAMS

Cell *cell_new(uint64_t id, uint64_t execution_count, const CellLimits *limits)
{
    static const char *const names[STREAMS] = {"stdout", "stderr"};
    Cell *cell = calloc(1, sizeof(*cell));

    if (!cell)
        return NULL;
    cell->id = id;
    cell->execution_count = execution_count;
    cell->credit = LIMIT_CREDIT;
    for (unsigned i = 0; i < STREAMS; i++) {
        char name[64];

        snprintf(name, sizeof(name), "%" PRIu64 ".%s", execution_count, names[i]);
        output_init(&cell->output[i], limits->output, &limits->spill, name);
    }
    displays_init(&cell->displays);
    return cell;
}

Cell *cell_free(Cell *cell)
{
    if (!cell)
        return NULL;
    ladder_end(&cell->ladder);
    for (unsigned i = 0; i < STREAMS; i++)
        output_deinit(&cell->output[i]);
    displays_deinit(&cell->displays);
    free(cell);
    return NULL;
}

static void send_output(Cell *cell, Link *link, unsigned stream, const uint8_t *bytes, size_t n)
{
    LinkFrame frame;

    if (link_begin(link, &frame, MSG_OUTPUT, cell->id, 2) < 0)
        return;
    write_key(&frame.writer, "stream");
    write_uint(&frame.writer, stream);
    write_key(&frame.writer, "data");
    write_bytes(&frame.writer, bytes, n);
    if (link_end(link, &frame) == 0)
        cell->credit--;
}

void cell_output(Cell *cell, Link *link, unsigned stream, const uint8_t *bytes, size_t n)
{
    output_write(&cell->output[stream - 1], bytes, n);
    if (cell->stream && cell->credit > 0 && link_has_room(link))
        send_output(cell, link, stream, bytes, n);
}

void cell_display(Cell *cell, Link *link, const Display *display)
{
    LinkFrame frame;

    if (!displays_add(&cell->displays, display) || !cell->stream || !link_has_room(link))
        return;
    if (link_begin(link, &frame, MSG_DISPLAY, cell->id, DISPLAY_EVENT_FIELDS) < 0)
        return;
    display_write_event(&frame.writer, display);
    link_end(link, &frame);
}

void cell_credit(Cell *cell, uint64_t count)
{
    cell->credit = (unsigned)MIN(count, LIMIT_CREDIT - cell->credit) + cell->credit;
}

bool cell_takes_output(const Cell *cell)
{
    return !cell->stream || cell->credit > CREDIT_RESERVE || cell->ladder.step != LADDER_STEP_WAIT;
}

/* The record */

static void write_optional_text(Writer *w, Text text)
{
    if (text.data)
        write_text_n(w, text.data, text.size);
    else
        write_nil(w);
}

static void write_error(Writer *w, const PythonError *error)
{
    write_key(w, "error");
    if (!error->name.data) {
        write_nil(w);
        return;
    }
    write_map(w, 3);
    write_key(w, "name");
    write_optional_text(w, error->name);
    write_key(w, "message");
    write_optional_text(w, error->message);
    write_key(w, "traceback");
    write_optional_text(w, error->traceback);
}

static void write_end(Writer *w, const Outcome *outcome, double duration)
{
    write_key(w, "signal");
    if (outcome->signal > 0)
        write_int(w, outcome->signal);
    else
        write_nil(w);
    write_key(w, "exit_code");
    if (outcome->exit_code >= 0)
        write_int(w, outcome->exit_code);
    else
        write_nil(w);
    write_key(w, "duration");
    write_double(w, duration);
    write_key(w, "usage");
    write_map(w, 2);
    write_key(w, "cpu");
    write_double(w, outcome->cpu);
    write_key(w, "peak_memory");
    write_uint(w, outcome->peak_memory);
}

/* `text` has room for the text of a stream and is empty before and after. */
static void write_stream(Writer *w, Output *output, const char *name, Buf *text)
{
    char key[32], file[LIMIT_PATH + 128];
    int r = output_text(output, text);

    if (r < 0 && w->error == 0)
        w->error = r;
    write_key(w, name);
    write_text_n(w, text->size ? (const char *)buf_head(text) : "", text->size);
    buf_clear(text);

    snprintf(key, sizeof(key), "%s_bytes", name);
    write_key(w, key);
    write_uint(w, output->total);
    snprintf(key, sizeof(key), "%s_file", name);
    write_key(w, key);
    if (output->truncated && output_file(output, file, sizeof(file)))
        write_name(w, file);
    else
        write_nil(w);
}

static void write_streams(Writer *w, Cell *cell)
{
    _cleanup_(buf_deinit) Buf text = BUF_NULL;

    write_stream(w, &cell->output[0], "stdout", &text);
    write_stream(w, &cell->output[1], "stderr", &text);
    write_key(w, "truncated");
    write_bool(w, cell->output[0].truncated || cell->output[1].truncated);
}

int cell_record(Cell *cell, const Outcome *outcome, uint64_t epoch, Buf *ret)
{
    double duration = cell->begun ? (double)(clock_now() - cell->started) / NSEC_PER_SEC : 0;
    Writer w;

    writer_message(&w, ret, MSG_EXECUTED, cell->id, 18);
    write_key(&w, "status");
    write_text(&w, outcome->status);
    write_key(&w, "state");
    write_text(&w, outcome->state_lost ? "lost" : "kept");
    write_key(&w, "epoch");
    write_uint(&w, epoch);
    write_key(&w, "execution_count");
    write_uint(&w, cell->execution_count);
    write_streams(&w, cell);
    write_key(&w, "result");
    write_optional_text(&w, outcome->result);
    write_key(&w, "displays");
    displays_write(&cell->displays, &w);
    write_error(&w, &outcome->error);
    write_end(&w, outcome, duration);
    return writer_finish(&w);
}
