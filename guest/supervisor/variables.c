#include "guest/supervisor/variables.h"

/* As many as an array of NumPy may have. */
#define DIMENSIONS_MAXIMUM 64u

static int check_shape(const msgpack_object_array *shape, Problem *problem)
{
    if (shape->size > DIMENSIONS_MAXIMUM)
        return problem_set(problem, ERR_TOO_LARGE, "a variable of more than %u dimensions",
                           DIMENSIONS_MAXIMUM);
    for (uint32_t i = 0; i < shape->size; i++)
        if (shape->ptr[i].type != MSGPACK_OBJECT_POSITIVE_INTEGER)
            return problem_set(problem, ERR_BAD_REQUEST, "a shape that is not of unsigned integers");
    return 0;
}

static int check_variable(const msgpack_object *object, Problem *problem)
{
    typedef struct Variable {
        Text name, type, dtype, repr;
        const msgpack_object_array *shape;
        uint64_t bytes;
    } Variable;
    static const Field fields[] = {
        FIELD(FIELD_TEXT, Variable, name, true, LIMIT_NOTE),
        FIELD(FIELD_TEXT, Variable, type, true, LIMIT_NOTE),
        FIELD(FIELD_ARRAY, Variable, shape, false, 0),
        FIELD(FIELD_TEXT, Variable, dtype, false, LIMIT_NOTE),
        FIELD(FIELD_UINT, Variable, bytes, false, 0),
        FIELD(FIELD_TEXT, Variable, repr, false, LIMIT_NOTE),
    };
    Variable variable = {0};

    if (object->type != MSGPACK_OBJECT_MAP)
        return problem_set(problem, ERR_BAD_REQUEST, "a variable that is not a map");
    int r = fields_decode(&variable, fields, ARRAY_SIZE(fields), &object->via.map, problem);
    return r == 0 && variable.shape ? check_shape(variable.shape, problem) : r;
}

static int check_variables(const msgpack_object_array *list, uint32_t limit, Problem *problem)
{
    int r = 0;

    if (list->size > limit)
        return problem_set(problem, ERR_TOO_LARGE, "more than %u variables", limit);
    for (uint32_t i = 0; r == 0 && i < list->size; i++)
        r = check_variable(&list->ptr[i], problem);
    return r;
}

static int check_names(const msgpack_object_array *list, Problem *problem)
{
    if (list->size > LIMIT_CHANGED)
        return problem_set(problem, ERR_TOO_LARGE, "more than %u names", LIMIT_CHANGED);
    for (uint32_t i = 0; i < list->size; i++)
        if (list->ptr[i].type != MSGPACK_OBJECT_STR || list->ptr[i].via.str.size > LIMIT_NOTE)
            return problem_set(problem, ERR_BAD_REQUEST, "a name that is not a text of at most %u bytes",
                               LIMIT_NOTE);
    return 0;
}

int variables_check_changed(const msgpack_object_map *body, Problem *problem)
{
    typedef struct Changed {
        const msgpack_object_array *added, *changed, *deleted;
        uint64_t more;
    } Changed;
    static const Field fields[] = {
        FIELD(FIELD_ARRAY, Changed, added, true, 0),
        FIELD(FIELD_ARRAY, Changed, changed, true, 0),
        FIELD(FIELD_ARRAY, Changed, deleted, true, 0),
        FIELD(FIELD_UINT, Changed, more, true, 0),
    };
    Changed said = {0};
    int r = fields_decode(&said, fields, ARRAY_SIZE(fields), body, problem);

    if (r == 0)
        r = check_variables(said.added, LIMIT_CHANGED, problem);
    if (r == 0)
        r = check_variables(said.changed, LIMIT_CHANGED, problem);
    return r == 0 ? check_names(said.deleted, problem) : r;
}

int variables_check_namespace(const msgpack_object_map *body, Problem *problem)
{
    typedef struct Namespace {
        const msgpack_object_array *names;
        uint64_t more;
    } Namespace;
    static const Field fields[] = {
        FIELD(FIELD_ARRAY, Namespace, names, true, 0),
        FIELD(FIELD_UINT, Namespace, more, true, 0),
    };
    Namespace said = {0};
    int r = fields_decode(&said, fields, ARRAY_SIZE(fields), body, problem);

    return r == 0 ? check_variables(said.names, LIMIT_NAMESPACE, problem) : r;
}
