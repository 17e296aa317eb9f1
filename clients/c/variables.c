#include "clients/c/variables.h"

#include "clients/c/answer.h"

typedef struct Variable {
    Text name, type, dtype, repr;
    const msgpack_object_array *shape;
    uint64_t bytes;
} Variable;

#define NO_BYTES UINT64_MAX

static const Field variable_fields[] = {
    FIELD(FIELD_TEXT, Variable, name, true, 0),    FIELD(FIELD_TEXT, Variable, type, true, 0),
    FIELD(FIELD_ARRAY, Variable, shape, false, 0), FIELD(FIELD_TEXT, Variable, dtype, false, 0),
    FIELD(FIELD_UINT, Variable, bytes, false, 0),  FIELD(FIELD_TEXT, Variable, repr, false, 0),
};

static int read_shape(LimpetVariable *variable, const msgpack_object_array *shape, Arena *arena,
                      Problem *problem)
{
    uint64_t *numbers = arena_new(arena, shape->size, sizeof(*numbers));

    for (uint32_t i = 0; numbers && i < shape->size; i++) {
        if (shape->ptr[i].type != MSGPACK_OBJECT_POSITIVE_INTEGER)
            return problem_set(problem, ERR_PROTOCOL_MISMATCH,
                               "the controller answered with a shape that is not made of numbers");
        numbers[i] = shape->ptr[i].via.u64;
    }
    variable->shape = numbers;
    variable->n_shape = shape->size;
    return 0;
}

static int read_variable(LimpetVariable *ret, const msgpack_object *object, Arena *arena, Problem *problem)
{
    Variable variable = {.bytes = NO_BYTES};
    int r;

    if (object->type != MSGPACK_OBJECT_MAP)
        return problem_set(problem, ERR_PROTOCOL_MISMATCH,
                           "the controller answered with a variable that is no map");
    r = reply_fields(&variable, variable_fields, ARRAY_SIZE(variable_fields), &object->via.map, problem);
    if (r < 0)
        return r;
    *ret = (LimpetVariable){
        .name = arena_text(arena, variable.name),
        .type = arena_text(arena, variable.type),
        .dtype = arena_text(arena, variable.dtype),
        .has_bytes = variable.bytes != NO_BYTES,
        .bytes = variable.bytes != NO_BYTES ? variable.bytes : 0,
        .repr = arena_text(arena, variable.repr),
    };
    return variable.shape ? read_shape(ret, variable.shape, arena, problem) : 0;
}

int variables_read(const LimpetVariable **ret, size_t *ret_n, const msgpack_object_array *variables,
                   Arena *arena, Problem *problem)
{
    LimpetVariable *read = arena_new(arena, variables->size, sizeof(*read));
    int r = 0;

    for (uint32_t i = 0; read && i < variables->size && !r; i++)
        r = read_variable(&read[i], &variables->ptr[i], arena, problem);
    *ret = read;
    *ret_n = variables->size;
    return r;
}

typedef struct Changed {
    const msgpack_object_array *added, *changed, *deleted;
    uint64_t more;
} Changed;

static const Field changed_fields[] = {
    FIELD(FIELD_ARRAY, Changed, added, true, 0),
    FIELD(FIELD_ARRAY, Changed, changed, true, 0),
    FIELD(FIELD_ARRAY, Changed, deleted, true, 0),
    FIELD(FIELD_UINT, Changed, more, true, 0),
};

int changed_read(const LimpetChanged **ret, const msgpack_object_map *map, Arena *arena, Problem *problem)
{
    LimpetChanged *changed = arena_new(arena, 1, sizeof(*changed));
    Changed body = {0};
    int r = reply_fields(&body, changed_fields, ARRAY_SIZE(changed_fields), map, problem);

    if (r < 0 || !changed)
        return r;
    changed->more = body.more;
    r = variables_read(&changed->added, &changed->n_added, body.added, arena, problem);
    if (!r)
        r = variables_read(&changed->changed, &changed->n_changed, body.changed, arena, problem);
    if (!r)
        r = texts_read(&changed->deleted, &changed->n_deleted, body.deleted, arena, problem);
    *ret = changed;
    return r;
}

typedef struct NamespaceReply {
    const msgpack_object_array *names;
    uint64_t more;
} NamespaceReply;

static const Field namespace_fields[] = {
    FIELD(FIELD_ARRAY, NamespaceReply, names, true, 0),
    FIELD(FIELD_UINT, NamespaceReply, more, true, 0),
};

static int read_namespace(void *value, const msgpack_object_map *map, Arena *arena, Problem *problem)
{
    LimpetNamespace *names = value;
    NamespaceReply body = {0};
    int r = reply_fields(&body, namespace_fields, ARRAY_SIZE(namespace_fields), map, problem);

    names->more = body.more;
    return r < 0 ? r : variables_read(&names->variables, &names->n_variables, body.names, arena, problem);
}

int limpet_namespace(LimpetClient *client, const char *session, LimpetNamespace **ret)
{
    Call call = {.repeatable = true};
    void *names;
    Writer w;
    int r;

    client_begin(client, &call, &w, MSG_NAMESPACE, 1);
    write_pair(&w, "session", session);
    r = answer_call(client, &call, &w, sizeof(LimpetNamespace), read_namespace, &names);
    if (!r)
        *ret = names;
    return client_result(client, r);
}

void limpet_namespace_free(LimpetNamespace *names)
{
    answer_free(names);
}

char *limpet_namespace_json(const LimpetNamespace *names)
{
    return answer_json(names);
}
