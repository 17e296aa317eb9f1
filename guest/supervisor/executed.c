#include "guest/supervisor/executed.h"

#include "guest/supervisor/variables.h"

typedef struct Body {
    Text result;
    const msgpack_object_array *displays;
    const msgpack_object_map *error, *changed;
    bool spawned;
    double cpu;
    uint64_t peak_memory;
} Body;

static int error_decode(PythonError *ret, const msgpack_object_map *body, Problem *problem)
{
    static const Field fields[] = {
        FIELD(FIELD_TEXT, PythonError, name, true, LIMIT_PATH),
        FIELD(FIELD_TEXT, PythonError, message, false, LIMIT_RESULT),
        FIELD(FIELD_TEXT, PythonError, traceback, false, LIMIT_TRACEBACK),
    };

    return fields_decode(ret, fields, ARRAY_SIZE(fields), body, problem);
}

static int displays_decode(Displays *displays, const msgpack_object_array *list, Problem *problem)
{
    if (list->size > LIMIT_DISPLAYS)
        return problem_set(problem, ERR_TOO_LARGE, "more than %u displays", LIMIT_DISPLAYS);
    for (uint32_t i = 0; i < list->size; i++) {
        Display display;

        if (list->ptr[i].type != MSGPACK_OBJECT_MAP)
            return problem_set(problem, ERR_BAD_REQUEST, "a display that is not a map");
        int r = display_decode(&display, &list->ptr[i].via.map, problem);
        if (r < 0)
            return r;
        displays_add(displays, &display);
    }
    return 0;
}

int executed_decode(Executed *ret, Displays *displays, const msgpack_object_map *body, Problem *problem)
{
    static const Field fields[] = {
        FIELD(FIELD_TEXT, Body, result, false, LIMIT_RESULT),
        FIELD(FIELD_ARRAY, Body, displays, false, 0),
        FIELD(FIELD_MAP, Body, error, false, 0),
        FIELD(FIELD_MAP, Body, changed, false, 0),
        FIELD(FIELD_BOOL, Body, spawned, false, 0),
        FIELD(FIELD_DOUBLE, Body, cpu, false, 0),
        FIELD(FIELD_UINT, Body, peak_memory, false, 0),
    };
    Body said = {0};
    PythonError error = {.message = {"", 0}, .traceback = {"", 0}};
    int r = fields_decode(&said, fields, ARRAY_SIZE(fields), body, problem);

    if (r == 0 && said.error)
        r = error_decode(&error, said.error, problem);
    if (r == 0 && said.changed)
        r = variables_check_changed(said.changed, problem);
    if (r == 0 && said.displays)
        r = displays_decode(displays, said.displays, problem);
    if (r < 0)
        return r;
    *ret = (Executed){.result = said.result,
                      .error = error,
                      .changed = said.changed,
                      .spawned = said.spawned,
                      .cpu = MAX(said.cpu, 0.0),
                      .peak_memory = said.peak_memory};
    return 0;
}
