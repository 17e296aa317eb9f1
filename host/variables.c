#include "host/variables.h"

#include "host/envelope.h"

/* Dimensions of an array; NumPy has 64. */
#define SHAPE_MAX 64

typedef struct Variable {
    Text name, type;
    const msgpack_object_array *shape;
    Text dtype;
    const msgpack_object *bytes;
    Text repr;
} Variable;

static const Field variable_fields[] = {
    FIELD(FIELD_TEXT, Variable, name, true, LIMIT_NOTE),
    FIELD(FIELD_TEXT, Variable, type, true, LIMIT_NOTE),
    FIELD(FIELD_ARRAY, Variable, shape, false, 0),
    FIELD(FIELD_TEXT, Variable, dtype, false, LIMIT_NOTE),
    FIELD(FIELD_OBJECT, Variable, bytes, false, 0),
    FIELD(FIELD_TEXT, Variable, repr, false, LIMIT_NOTE),
};

static bool shape_valid(const msgpack_object_array *shape)
{
    if (shape->size > SHAPE_MAX)
        return false;
    for (uint32_t i = 0; i < shape->size; i++)
        if (shape->ptr[i].type != MSGPACK_OBJECT_POSITIVE_INTEGER)
            return false;
    return true;
}

static int variable_decode(Variable *ret, const msgpack_object *object, Problem *problem)
{
    Variable variable = {0};
    int r;

    if (object->type != MSGPACK_OBJECT_MAP)
        return problem_set(problem, ERR_BAD_REQUEST, "a variable must be a map");
    r = fields_decode(&variable, variable_fields, ARRAY_SIZE(variable_fields), &object->via.map, problem);
    if (r < 0)
        return r;
    if ((variable.shape && !shape_valid(variable.shape)) ||
        (variable.bytes && variable.bytes->type != MSGPACK_OBJECT_POSITIVE_INTEGER))
        return problem_set(problem, ERR_BAD_REQUEST, "shape or bytes of a variable are malformed");
    *ret = variable;
    return 0;
}

int variables_check(const msgpack_object_array *variables, size_t max, Problem *problem)
{
    Variable variable;
    int r = 0;

    if (variables->size > max)
        return problem_set(problem, ERR_TOO_LARGE, "more than %zu variables", max);
    for (uint32_t i = 0; r == 0 && i < variables->size; i++)
        r = variable_decode(&variable, &variables->ptr[i], problem);
    return r;
}

static void write_variable(Writer *w, const Variable *variable)
{
    write_map(w, 6);
    write_optional(w, "name", variable->name);
    write_optional(w, "type", variable->type);
    write_key(w, "shape");
    if (variable->shape)
        write_array(w, variable->shape->size);
    else
        write_nil(w);
    for (uint32_t i = 0; variable->shape && i < variable->shape->size; i++)
        write_uint(w, variable->shape->ptr[i].via.u64);
    write_optional(w, "dtype", variable->dtype);
    write_key(w, "bytes");
    write_object(w, variable->bytes);
    write_optional(w, "repr", variable->repr);
}

void variables_write(Writer *w, const msgpack_object_array *variables)
{
    Problem problem = PROBLEM_NULL;

    write_array(w, variables->size);
    for (uint32_t i = 0; i < variables->size; i++) {
        Variable variable = {0};
        variable_decode(&variable, &variables->ptr[i], &problem);
        write_variable(w, &variable);
    }
}

static const Field changed_fields[] = {
    FIELD(FIELD_ARRAY, Changed, added, true, 0),
    FIELD(FIELD_ARRAY, Changed, changed, true, 0),
    FIELD(FIELD_ARRAY, Changed, deleted, true, 0),
    FIELD(FIELD_UINT, Changed, more, true, 0),
};

int changed_decode(Changed *ret, const msgpack_object_map *body, Problem *problem)
{
    Changed changed = {0};
    int r = fields_decode(&changed, changed_fields, ARRAY_SIZE(changed_fields), body, problem);

    if (r == 0)
        r = variables_check(changed.added, LIMIT_CHANGED, problem);
    if (r == 0)
        r = variables_check(changed.changed, LIMIT_CHANGED, problem);
    if (r == 0)
        r = texts_check(changed.deleted, LIMIT_CHANGED, LIMIT_NOTE, "deleted", problem);
    if (r == 0)
        *ret = changed;
    return r;
}

void changed_write(Writer *w, const Changed *changed)
{
    write_map(w, 4);
    write_key(w, "added");
    variables_write(w, changed->added);
    write_key(w, "changed");
    variables_write(w, changed->changed);
    write_key(w, "deleted");
    texts_write(w, changed->deleted);
    write_key(w, "more");
    write_uint(w, changed->more);
}

int texts_check(const msgpack_object_array *texts, size_t max, size_t size, const char *what,
                Problem *problem)
{
    if (texts->size > max)
        return problem_set(problem, ERR_TOO_LARGE, "`%s` has more than %zu texts", what, max);
    for (uint32_t i = 0; i < texts->size; i++)
        if (texts->ptr[i].type != MSGPACK_OBJECT_STR || texts->ptr[i].via.str.size > size)
            return problem_set(problem, ERR_BAD_REQUEST, "`%s` must be texts of at most %zu bytes", what,
                               size);
    return 0;
}

void texts_write(Writer *w, const msgpack_object_array *texts)
{
    write_array(w, texts ? texts->size : 0);
    for (uint32_t i = 0; texts && i < texts->size; i++)
        write_text_n(w, texts->ptr[i].via.str.ptr, texts->ptr[i].via.str.size);
}
