#include "clients/c/variables.h"

#include "clients/c/answer.h"

static void read_shape(LimpetVariable *variable, const Value *shape, Arena *arena)
{
    uint32_t n = value_count(shape);
    uint64_t *numbers = arena_new(arena, n, sizeof(*numbers));

    for (uint32_t i = 0; numbers && i < n; i++)
        numbers[i] = value_uint(shape, i);
    variable->shape = numbers;
    variable->n_shape = n;
}

static void read_variable(LimpetVariable *ret, const MsgVariable *said, Arena *arena)
{
    *ret = (LimpetVariable){
        .name = arena_text(arena, said->name),
        .type = arena_text(arena, said->type),
        .dtype = arena_text(arena, said->dtype),
        .has_bytes = said->bytes != NO_UINT,
        .bytes = said->bytes != NO_UINT ? said->bytes : 0,
        .repr = arena_text(arena, said->repr),
    };
    if (said->shape.array)
        read_shape(ret, &said->shape, arena);
}

static void read_variables(const LimpetVariable **ret, size_t *ret_n, const Value *variables, Arena *arena)
{
    uint32_t n = value_count(variables);
    LimpetVariable *read = arena_new(arena, n, sizeof(*read));

    for (uint32_t i = 0; read && i < n; i++) {
        MsgVariable row;

        value_row(&row, MsgVariable, variables, i);
        read_variable(&read[i], &row, arena);
    }
    *ret = read;
    *ret_n = n;
}

const LimpetChanged *changed_read(const MsgChanged *said, Arena *arena)
{
    LimpetChanged *changed = arena_new(arena, 1, sizeof(*changed));

    if (!changed)
        return NULL;
    changed->more = said->more;
    read_variables(&changed->added, &changed->n_added, &said->added, arena);
    read_variables(&changed->changed, &changed->n_changed, &said->changed, arena);
    texts_read(&changed->deleted, &changed->n_deleted, &said->deleted, arena);
    return changed;
}

static int read_namespace(void *value, const msgpack_object_map *map, Arena *arena, Problem *problem)
{
    LimpetNamespace *names = value;
    MsgNamespace body;
    int r = reply_decode(&body, MsgNamespace, map, problem);

    if (r < 0)
        return r;
    names->more = body.more;
    read_variables(&names->variables, &names->n_variables, &body.names, arena);
    return 0;
}

int limpet_namespace(LimpetClient *client, const char *session, LimpetNamespace **ret)
{
    ClientCall call = {.repeatable = true};
    void *names;
    int r;

    client_begin(client, &call, MSG_NAMESPACE, MsgTarget, &(MsgTarget){.session = text_of(session)});
    r = answer_call(client, &call, sizeof(LimpetNamespace), read_namespace, &names);
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
