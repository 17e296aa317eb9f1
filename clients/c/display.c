/* Displays: bundles of MIME types and their values. */
#include <errno.h>

#include "clients/c/result.h"

typedef struct DisplayBody {
    const msgpack_object_map *data, *metadata;
    Text display_id;
    bool is_result, update;
} DisplayBody;

static const Field display_fields[] = {
    FIELD(FIELD_MAP, DisplayBody, data, true, 0),         FIELD(FIELD_MAP, DisplayBody, metadata, false, 0),
    FIELD(FIELD_TEXT, DisplayBody, display_id, false, 0), FIELD(FIELD_BOOL, DisplayBody, is_result, false, 0),
    FIELD(FIELD_BOOL, DisplayBody, update, false, 0),
};

static LimpetValue read_value(const msgpack_object_kv *pair, Arena *arena)
{
    const msgpack_object *value = &pair->val;
    LimpetValue result = {.type = LIMPET_JSON};
    Text text = {0};

    if (value->type == MSGPACK_OBJECT_STR) {
        result.type = LIMPET_TEXT;
        text = (Text){value->via.str.ptr, value->via.str.size};
    } else if (value->type == MSGPACK_OBJECT_BIN) {
        result.type = LIMPET_BYTES;
        text = (Text){value->via.bin.ptr, value->via.bin.size};
    }
    result.mime_type = arena_text(arena, (Text){pair->key.via.str.ptr, pair->key.via.str.size});
    if (result.type == LIMPET_JSON) {
        result.data = arena_json(arena, value, &result.size);
    } else {
        result.data = arena_text(arena, text);
        result.size = text.size;
    }
    return result;
}

static const char *read_metadata(const msgpack_object_map *metadata, Arena *arena)
{
    msgpack_object object = {.type = MSGPACK_OBJECT_MAP};
    size_t size;

    if (metadata)
        object.via.map = *metadata;
    return arena_json(arena, &object, &size);
}

int display_read(LimpetDisplay *ret, bool *ret_update, const msgpack_object_map *body, Arena *arena,
                 Problem *problem)
{
    DisplayBody display = {0};
    LimpetValue *values;
    int r = reply_fields(&display, display_fields, ARRAY_SIZE(display_fields), body, problem);

    if (r < 0)
        return r;
    values = arena_new(arena, display.data->size, sizeof(*values));
    for (uint32_t i = 0; values && i < display.data->size; i++) {
        if (display.data->ptr[i].key.type != MSGPACK_OBJECT_STR)
            return problem_set(problem, ERR_PROTOCOL_MISMATCH, "a MIME type in a display is not text");
        values[i] = read_value(&display.data->ptr[i], arena);
    }
    *ret = (LimpetDisplay){
        .values = values,
        .n_values = display.data->size,
        .metadata = read_metadata(display.metadata, arena),
        .display_id = arena_text(arena, display.display_id),
        .is_result = display.is_result,
    };
    if (ret_update)
        *ret_update = display.update;
    return arena->failed ? -ENOMEM : 0;
}
