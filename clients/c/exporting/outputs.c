#include "clients/c/exporting/outputs.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

#include "clients/c/exporting/items.h"
#include "clients/c/exporting/traceback.h"
#include "clients/c/json.h"

#define PLAIN "text/plain"

static bool is_json(Text kind)
{
    return kind.size >= 4 && memcmp(kind.data + kind.size - 4, "json", 4) == 0;
}

static void write_base64(Writer *w, Text bytes)
{
    _cleanup_(freep) unsigned char *text = malloc((bytes.size + 2) / 3 * 4 + 1);

    if (!text) {
        writer_fail(w, -ENOMEM);
        return;
    }
    write_text_n(w, (char *)text,
                 (size_t)EVP_EncodeBlock(text, (const unsigned char *)bytes.data, (int)bytes.size));
}

/* Writes a value as text that is neither text nor JSON by its kind. */
static void write_as_text(Writer *w, const msgpack_object *value)
{
    _cleanup_(buf_deinit) Buf text = BUF_NULL;
    int r = json_write(&text, value, JSON_BASE64);

    if (r < 0)
        writer_fail(w, r);
    else
        write_text_n(w, (const char *)buf_head(&text), text.size);
}

static void write_pair(Writer *w, const msgpack_object_kv *pair)
{
    Text kind = text_of_object(&pair->key);

    write_text_n(w, kind.data, kind.size);
    if (pair->val.type == MSGPACK_OBJECT_BIN)
        write_base64(w, text_of_object(&pair->val));
    else if (pair->val.type == MSGPACK_OBJECT_STR || is_json(kind))
        write_object(w, &pair->val);
    else
        write_as_text(w, &pair->val);
}

/* ---- streams and displays ---- */

static void add_stream(Items *outputs, const PastCall *call, const char *name)
{
    Text text = past_call_text(call, name);
    Writer *w;

    if (text.size == 0)
        return;
    w = items_add(outputs);
    write_map(w, 3);
    write_key(w, "output_type");
    write_text(w, "stream");
    write_key(w, "name");
    write_text(w, name);
    write_key(w, "text");
    write_text_n(w, text.data, text.size);
}

static const msgpack_object_map *data_of(const msgpack_object *display)
{
    const msgpack_object *data =
        display->type == MSGPACK_OBJECT_MAP ? map_find(&display->via.map, "data") : NULL;

    return data && data->type == MSGPACK_OBJECT_MAP ? &data->via.map : NULL;
}

static bool is_result(const msgpack_object *display)
{
    const msgpack_object *is =
        display->type == MSGPACK_OBJECT_MAP ? map_find(&display->via.map, "is_result") : NULL;

    return is && is->type == MSGPACK_OBJECT_BOOLEAN && is->via.boolean;
}

static void add_display(Items *outputs, const msgpack_object *display)
{
    const msgpack_object_map *data = data_of(display);
    Writer *w = items_add(outputs);

    write_map(w, 3);
    write_key(w, "output_type");
    write_text(w, "display_data");
    write_key(w, "data");
    write_map(w, data ? data->size : 0);
    for (uint32_t i = 0; data && i < data->size; i++)
        write_pair(w, &data->ptr[i]);
    write_key(w, "metadata");
    write_map(w, 0);
}

/* ---- the value of the last expression: its repr, and its other forms ---- */

typedef struct ResultBundle {
    const msgpack_object_kv **pairs;
    size_t n, capacity;
    Text plain;
    bool failed;
} ResultBundle;

static bool has(const ResultBundle *bundle, Text kind)
{
    if (bundle->plain.data && text_equal(kind, PLAIN))
        return true;
    for (size_t i = 0; i < bundle->n; i++) {
        Text other = text_of_object(&bundle->pairs[i]->key);

        if (text_compare(other, kind) == 0)
            return true;
    }
    return false;
}

static void add_pair(ResultBundle *bundle, const msgpack_object_kv *pair)
{
    if (has(bundle, text_of_object(&pair->key)))
        return;
    if (bundle->n == bundle->capacity) {
        size_t capacity = MAX(2 * bundle->capacity, (size_t)16);
        const msgpack_object_kv **space = realloc(bundle->pairs, capacity * sizeof(*space));

        if (!space) {
            bundle->failed = true;
            return;
        }
        bundle->pairs = space;
        bundle->capacity = capacity;
    }
    bundle->pairs[bundle->n++] = pair;
}

static void add_result(Items *outputs, const PastCall *call, const ResultBundle *bundle)
{
    Writer *w;

    if (bundle->n == 0 && !bundle->plain.data)
        return;
    w = items_add(outputs);
    write_map(w, 4);
    write_key(w, "output_type");
    write_text(w, "execute_result");
    write_key(w, "data");
    write_map(w, bundle->n + (bundle->plain.data != NULL));
    for (size_t i = 0; i < bundle->n; i++)
        write_pair(w, bundle->pairs[i]);
    if (bundle->plain.data) {
        write_key(w, PLAIN);
        write_text_n(w, bundle->plain.data, bundle->plain.size);
    }
    write_key(w, "metadata");
    write_map(w, 0);
    write_key(w, "execution_count");
    write_object(w, past_call_said(call, "execution_count"));
    if (bundle->failed)
        writer_fail(w, -ENOMEM);
}

static void add_displays(Items *outputs, const PastCall *call)
{
    const msgpack_object *displays = past_call_said(call, "displays");
    size_t n = displays && displays->type == MSGPACK_OBJECT_ARRAY ? displays->via.array.size : 0;
    ResultBundle bundle = {.plain = past_call_text(call, "result")};

    for (size_t i = 0; i < n; i++) {
        const msgpack_object *display = &displays->via.array.ptr[i];
        const msgpack_object_map *data = data_of(display);

        if (!is_result(display))
            add_display(outputs, display);
        for (uint32_t j = 0; is_result(display) && data && j < data->size; j++)
            add_pair(&bundle, &data->ptr[j]);
    }
    add_result(outputs, call, &bundle);
    free(bundle.pairs);
}

/* ---- the error ---- */

static void add_error(Items *outputs, const PastCall *call)
{
    const msgpack_object_map *error = past_call_map(call, "error");
    Text name, message;
    Writer *w;

    if (!error || error->size == 0)
        return;
    name = text_of_object(map_find(error, "name"));
    message = text_of_object(map_find(error, "message"));
    w = items_add(outputs);
    write_map(w, 4);
    write_key(w, "output_type");
    write_text(w, "error");
    write_key(w, "ename");
    write_text_n(w, name.size ? name.data : "", name.size);
    write_key(w, "evalue");
    write_text_n(w, message.size ? message.data : "", message.size);
    write_key(w, "traceback");
    traceback_write(w, text_of_object(map_find(error, "traceback")), name, message);
}

void outputs_write(Writer *w, const PastCall *call)
{
    Items outputs;

    items_begin(&outputs);
    add_stream(&outputs, call, "stdout");
    add_stream(&outputs, call, "stderr");
    add_displays(&outputs, call);
    add_error(&outputs, call);
    items_end(&outputs, w);
}
