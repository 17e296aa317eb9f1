#include "host/display.h"

typedef struct Display {
    const msgpack_object_map *data, *metadata;
    Text display_id;
    bool is_result, update;
} Display;

/* The last one is of events alone. */
static const Field fields[] = {
    FIELD(FIELD_MAP, Display, data, true, 0),
    FIELD(FIELD_MAP, Display, metadata, false, 0),
    FIELD(FIELD_TEXT, Display, display_id, false, LIMIT_PATH),
    FIELD(FIELD_BOOL, Display, is_result, true, 0),
    FIELD(FIELD_BOOL, Display, update, false, 0),
};

static int check(const msgpack_object_map *body, size_t n_fields, Problem *problem)
{
    Display display = {0};
    int r = fields_decode(&display, fields, n_fields, body, problem);

    if (r < 0)
        return r;
    for (uint32_t i = 0; i < display.data->size; i++)
        if (display.data->ptr[i].key.type != MSGPACK_OBJECT_STR)
            return problem_set(problem, ERR_BAD_REQUEST, "a MIME type of a display is not text");
    return 0;
}

int displays_check(const msgpack_object_array *displays, Problem *problem)
{
    if (displays->size > LIMIT_DISPLAYS)
        return problem_set(problem, ERR_TOO_LARGE, "more than %u displays", LIMIT_DISPLAYS);
    for (uint32_t i = 0; i < displays->size; i++) {
        int r = displays->ptr[i].type == MSGPACK_OBJECT_MAP
                    ? check(&displays->ptr[i].via.map, ARRAY_SIZE(fields) - 1, problem)
                    : problem_set(problem, ERR_BAD_REQUEST, "a display is not a map");

        if (r < 0)
            return r;
    }
    return 0;
}

int display_check_event(const msgpack_object_map *body, Problem *problem)
{
    return check(body, ARRAY_SIZE(fields), problem);
}
