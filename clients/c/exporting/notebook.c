#include "clients/c/exporting/notebook.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/c/exporting/items.h"
#include "clients/c/exporting/outputs.h"

#define UNKNOWN      "# The code of this call is not known: its controller was replaced while it ran."
#define VALUE        "# limpet.value\n" /* first line of the code of Session.value(), and of Session.set() */
#define SET          "# limpet.set: "
#define FROM_OUTSIDE "# The value came from outside: set the variable here before you run what follows."
#define MISSING      "Later calls are missing: the controller keeps 32 MiB of the calls of a session."

static const char *const facts[] = {"run_id", "status", "state", "kind", "execution_count", "duration"};

/* ---- what is told of a call ---- */

static int compare_keys(const void *a, const void *b)
{
    return text_compare(text_of_object(&((const msgpack_object_kv *)a)->key),
                        text_of_object(&((const msgpack_object_kv *)b)->key));
}

static void write_paths(Writer *w, const msgpack_object_map *artifacts)
{
    _cleanup_(freep) msgpack_object_kv *sorted = calloc(artifacts->size, sizeof(*sorted));

    if (!sorted) {
        writer_fail(w, -ENOMEM);
        return;
    }
    memcpy(sorted, artifacts->ptr, artifacts->size * sizeof(*sorted));
    qsort(sorted, artifacts->size, sizeof(*sorted), compare_keys);
    write_array(w, artifacts->size);
    for (uint32_t i = 0; i < artifacts->size; i++)
        write_object(w, &sorted[i].key);
}

static void write_facts(Writer *w, const PastCall *call)
{
    const msgpack_object_map *artifacts = past_call_map(call, "artifacts");
    bool has_artifacts = artifacts && artifacts->size > 0;
    size_t n = has_artifacts + call->undone;

    for (size_t i = 0; i < ARRAY_SIZE(facts); i++)
        n += past_call_said(call, facts[i]) != NULL;
    write_map(w, n);
    for (size_t i = 0; i < ARRAY_SIZE(facts); i++) {
        const msgpack_object *said = past_call_said(call, facts[i]);

        if (!said)
            continue;
        write_key(w, facts[i]);
        write_object(w, said);
    }
    if (has_artifacts) {
        write_key(w, "artifacts");
        write_paths(w, artifacts);
    }
    if (call->undone) {
        write_key(w, "undone");
        write_bool(w, true);
    }
}

static void write_metadata(Writer *w, const PastCall *call, bool raises)
{
    write_key(w, "metadata");
    write_map(w, raises ? 2 : 1);
    write_key(w, "limpet");
    write_facts(w, call);
    if (!raises)
        return;
    write_key(w, "tags");
    write_array(w, 1);
    write_text(w, "raises-exception");
}

/* ---- cells ---- */

static void begin_cell(Writer *w, size_t members, const char *type, const char *id, size_t number)
{
    char name[40];

    snprintf(name, sizeof(name), "%s-%zu", id, number);
    write_map(w, members);
    write_key(w, "cell_type");
    write_text(w, type);
    write_key(w, "id");
    write_text(w, name);
}

static bool begins_with(const PastCall *call, const char *begin)
{
    size_t n = strlen(begin);

    return call->code.data && past_call_is(call, "python") && call->code.size >= n &&
           memcmp(call->code.data, begin, n) == 0;
}

/* A value from outside is named, and not shown. */
static void write_set(Writer *w, const PastCall *call)
{
    _cleanup_(buf_deinit) Buf lines = BUF_NULL;
    const char *end = memchr(call->code.data, '\n', call->code.size);
    size_t n = end ? (size_t)(end - call->code.data) : call->code.size;

    if (buf_append(&lines, call->code.data, n) < 0 ||
        buf_append(&lines, "\n" FROM_OUTSIDE, strlen("\n" FROM_OUTSIDE)) < 0)
        writer_fail(w, -ENOMEM);
    write_text_n(w, (const char *)buf_head(&lines), lines.size);
}

static void write_source(Writer *w, const PastCall *call)
{
    _cleanup_(buf_deinit) Buf lines = BUF_NULL;
    Text code = call->code.data ? call->code : text_of(UNKNOWN);

    write_key(w, "source");
    if (begins_with(call, SET)) {
        write_set(w, call);
        return;
    }
    if (!call->code.data || !past_call_is(call, "bash")) {
        write_text_n(w, code.data, code.size);
        return;
    }
    if (buf_append(&lines, "%%bash\n", strlen("%%bash\n")) < 0 ||
        buf_append(&lines, code.data, code.size) < 0)
        writer_fail(w, -ENOMEM);
    write_text_n(w, (const char *)buf_head(&lines), lines.size);
}

/* Returns whether the call would do again what it did when it ran. */
static bool runs_again(const PastCall *call, Text status)
{
    return call->code.data && !call->undone && !begins_with(call, SET) &&
           (past_call_is(call, "python") || past_call_is(call, "command") || past_call_is(call, "bash")) &&
           (!status.data || text_equal(status, "ok") || text_equal(status, "error"));
}

static void write_cell(Writer *w, const PastCall *call, size_t number)
{
    Text status = past_call_text(call, "status");
    uint64_t count;

    if (!runs_again(call, status)) {
        begin_cell(w, 4, "raw", "call", number);
        write_metadata(w, call, false);
        write_source(w, call);
        return;
    }
    begin_cell(w, 6, "code", "call", number);
    write_metadata(w, call, status.data && text_equal(status, "error"));
    write_key(w, "execution_count");
    if (past_call_count(call, &count))
        write_uint(w, count);
    else
        write_nil(w);
    write_source(w, call);
    write_key(w, "outputs");
    outputs_write(w, call);
}

static void write_note(Writer *w, const char *text)
{
    begin_cell(w, 4, "markdown", "note", 1);
    write_key(w, "metadata");
    write_map(w, 0);
    write_key(w, "source");
    write_text(w, text);
}

/* Writes the calls of the session itself, and those of its branches and contexts that are no Python. */
static void write_cells(Writer *w, const PastCalls *past)
{
    Items cells;

    items_begin(&cells);
    for (size_t i = 0; i < past->n; i++) {
        const PastCall *call = &past->calls[i];

        if ((call->branch == 0 || !past_call_is(call, "python")) && !begins_with(call, VALUE)) {
            Writer *to = items_add(&cells);

            write_cell(to, call, cells.n);
        }
    }
    if (past->full)
        write_note(items_add(&cells), MISSING);
    items_end(&cells, w);
}

void notebook_write(Writer *w, const PastCalls *past, Text python)
{
    write_map(w, 4);
    write_key(w, "nbformat");
    write_uint(w, 4);
    write_key(w, "nbformat_minor");
    write_uint(w, 5);
    write_key(w, "metadata");
    write_map(w, 2);
    write_key(w, "kernelspec");
    write_map(w, 3);
    write_key(w, "name");
    write_text(w, "python3");
    write_key(w, "display_name");
    write_text(w, "Python 3");
    write_key(w, "language");
    write_text(w, "python");
    write_key(w, "language_info");
    write_map(w, 2);
    write_key(w, "name");
    write_text(w, "python");
    write_key(w, "version");
    write_text_n(w, python.data, python.size);
    write_key(w, "cells");
    write_cells(w, past);
}
