/* The files of a record: those that were published, and those that could not be. */
#include <string.h>

#include "clients/c/result.h"

/* File names come as text, or as bytes where they are not UTF-8. */
static Text name_of(const msgpack_object *object)
{
    if (object->type == MSGPACK_OBJECT_STR)
        return (Text){object->via.str.ptr, object->via.str.size};
    if (object->type == MSGPACK_OBJECT_BIN)
        return (Text){object->via.bin.ptr, object->via.bin.size};
    return (Text){0};
}

static bool same_name(Text a, Text b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static int names_of(const msgpack_object_kv *pair, const char *field, Text *ret_key, Text *ret_value,
                    Problem *problem)
{
    *ret_key = name_of(&pair->key);
    *ret_value = name_of(&pair->val);
    if (!ret_key->data || !ret_value->data)
        return problem_set(problem, ERR_PROTOCOL_MISMATCH,
                           "the controller answered with %s whose paths are not text", field);
    return 0;
}

/* Both maps are written in the same order; looking elsewhere is for a controller that does not. */
static const msgpack_object *info_of(const msgpack_object_map *info, uint32_t place, Text path)
{
    if (place < info->size && same_name(name_of(&info->ptr[place].key), path))
        return &info->ptr[place].val;
    for (uint32_t i = 0; i < info->size; i++)
        if (same_name(name_of(&info->ptr[i].key), path))
            return &info->ptr[i].val;
    return NULL;
}

int artifacts_read(LimpetResult *ret, const MsgRecord *record, Arena *arena, Problem *problem)
{
    const msgpack_object_map *paths = record->artifacts.map;
    uint32_t n = paths->size;
    LimpetArtifact *artifacts = arena_new(arena, n, sizeof(*artifacts));

    for (uint32_t i = 0; artifacts && i < n; i++) {
        MsgArtifact info;
        const msgpack_object *object;
        Text path, host_path;
        int r = names_of(&paths->ptr[i], "artifacts", &path, &host_path, problem);

        if (r < 0)
            return r;
        body_clear(&info, MsgArtifact);
        object = info_of(record->artifact_info.map, i, path);
        if (object && object->type == MSGPACK_OBJECT_MAP)
            r = reply_decode(&info, MsgArtifact, &object->via.map, problem);
        if (r < 0)
            return r;
        artifacts[i] = (LimpetArtifact){
            .path = arena_text(arena, path),
            .host_path = arena_text(arena, host_path),
            .size = uint_or(info.size, 0),
            .mime_type = arena_text(arena, info.mime_type),
            .sha256 = arena_text(arena, info.sha256),
        };
    }
    ret->artifacts = artifacts;
    ret->n_artifacts = n;
    return 0;
}

int skipped_read(LimpetResult *ret, const MsgRecord *record, Arena *arena, Problem *problem)
{
    const msgpack_object_map *reasons = record->skipped.map;
    uint32_t n = reasons->size;
    LimpetSkipped *skipped = arena_new(arena, n, sizeof(*skipped));

    for (uint32_t i = 0; skipped && i < n; i++) {
        Text path, reason;
        int r = names_of(&reasons->ptr[i], "skipped files", &path, &reason, problem);

        if (r < 0)
            return r;
        skipped[i] = (LimpetSkipped){arena_text(arena, path), arena_text(arena, reason)};
    }
    ret->skipped = skipped;
    ret->n_skipped = n;
    return 0;
}
