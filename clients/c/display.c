/* Displays: bundles of MIME types and their values. */
#include "clients/c/result.h"

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

static const char *read_metadata(const Value *metadata, Arena *arena)
{
    msgpack_object object = {.type = MSGPACK_OBJECT_MAP};
    size_t size;

    if (metadata->map)
        object.via.map = *metadata->map;
    return arena_json(arena, &object, &size);
}

void display_read(LimpetDisplay *ret, const MsgDisplay *said, Arena *arena)
{
    uint32_t n = said->data.map->size;
    LimpetValue *values = arena_new(arena, n, sizeof(*values));

    for (uint32_t i = 0; values && i < n; i++)
        values[i] = read_value(&said->data.map->ptr[i], arena);
    *ret = (LimpetDisplay){
        .values = values,
        .n_values = n,
        .metadata = read_metadata(&said->metadata, arena),
        .display_id = arena_text(arena, said->display_id),
        .is_result = said->is_result,
    };
}
