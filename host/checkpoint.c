#include "host/checkpoint.h"

#include "host/envelope.h"
#include "host/sessions.h"
#include "host/variables.h"

static const Field fields[] = {
    FIELD(FIELD_TEXT, Checkpoint, id, true, LIMIT_SESSION_NAME),
    FIELD(FIELD_TEXT, Checkpoint, name, false, LIMIT_SESSION_NAME),
    FIELD(FIELD_UINT, Checkpoint, branch, true, 0),
    FIELD(FIELD_UINT, Checkpoint, execution_count, true, 0),
    FIELD(FIELD_DOUBLE, Checkpoint, created, true, 0),
    FIELD(FIELD_BOOL, Checkpoint, automatic, true, 0),
    FIELD(FIELD_UINT, Checkpoint, private_bytes, true, 0),
    FIELD(FIELD_TEXT, Checkpoint, parent, false, LIMIT_SESSION_NAME),
};

int checkpoint_decode(Checkpoint *ret, const msgpack_object *object, Problem *problem)
{
    Checkpoint checkpoint = {0};
    int r;

    if (object->type != MSGPACK_OBJECT_MAP)
        return problem_set(problem, ERR_BAD_REQUEST, "a checkpoint must be a map");
    r = fields_decode(&checkpoint, fields, ARRAY_SIZE(fields), &object->via.map, problem);
    if (r < 0)
        return r;
    if (!session_name_valid(checkpoint.id) ||
        (checkpoint.name.data && !session_name_valid(checkpoint.name)) ||
        (checkpoint.parent.data && !session_name_valid(checkpoint.parent)))
        return problem_set(problem, ERR_BAD_REQUEST, "the id or name of a checkpoint is malformed");
    *ret = checkpoint;
    return 0;
}

void checkpoint_write(Writer *w, const Checkpoint *checkpoint, const char *session, bool files)
{
    write_map(w, 9);
    write_optional(w, "id", checkpoint->id);
    write_optional(w, "name", checkpoint->name);
    write_key(w, "session");
    write_text(w, session);
    write_key(w, "execution_count");
    write_uint(w, checkpoint->execution_count);
    write_key(w, "created");
    write_double(w, checkpoint->created);
    write_key(w, "automatic");
    write_bool(w, checkpoint->automatic);
    write_key(w, "files");
    write_bool(w, files);
    write_key(w, "private_bytes");
    write_uint(w, checkpoint->private_bytes);
    write_optional(w, "parent", checkpoint->parent);
}

int checkpoint_ids_check(const msgpack_object_array *ids, Problem *problem)
{
    int r = texts_check(ids, LIMIT_KEYS, LIMIT_SESSION_NAME, "dropped", problem);

    for (uint32_t i = 0; r == 0 && i < ids->size; i++)
        if (!session_name_valid((Text){ids->ptr[i].via.str.ptr, ids->ptr[i].via.str.size}))
            r = problem_set(problem, ERR_BAD_REQUEST, "the id of a checkpoint is malformed");
    return r;
}
