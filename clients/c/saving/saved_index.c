#include "clients/c/saving/saved_index.h"

#include <errno.h>

static int read_variables(SavedIndex *index, struct json_object *rows)
{
    size_t n = json_object_array_length(rows);

    index->variables = calloc(MAX(n, (size_t)1), sizeof(*index->variables));
    if (!index->variables)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        struct json_object *row = json_object_array_get_idx(rows, i), *why = NULL;
        struct json_object *name = json_member(row, "name", json_type_string);

        if (!name ||
            (json_object_object_get_ex(row, "why", &why) && !json_object_is_type(why, json_type_string)))
            return -EBADMSG;
        index->variables[i] =
            (LimpetSavedVariable){json_object_get_string(name), why ? json_object_get_string(why) : NULL};
    }
    index->n_variables = n;
    return 0;
}

static bool values_are_texts(struct json_object *object)
{
    json_object_object_foreach(object, key, value)
    {
        (void)key;
        if (!json_object_is_type(value, json_type_string))
            return false;
    }
    return true;
}

static int read_index(SavedIndex *index, const void *bytes, size_t size)
{
    struct json_object *rows, *python;

    index->said = json_read(bytes, size);
    rows = json_member(index->said, "variables", json_type_array);
    python = json_member(index->said, "python", json_type_string);
    index->packages = json_member(index->said, "packages", json_type_object);
    index->skipped = json_member(index->said, "skipped", json_type_array);
    if (!rows || !python || !index->packages || !index->skipped || !json_are_texts(index->skipped) ||
        !values_are_texts(index->packages) ||
        (json_object_object_get_ex(index->said, "requirements", &index->requirements) &&
         (!json_object_is_type(index->requirements, json_type_array) ||
          !json_are_texts(index->requirements))))
        return -EBADMSG;
    index->python = json_text(python);
    return read_variables(index, rows);
}

int saved_index_read(SavedIndex *ret, const void *bytes, size_t size, Problem *problem)
{
    SavedIndex index = SAVED_INDEX_NULL;
    int r = read_index(&index, bytes, size);

    if (r == 0) {
        *ret = index;
        return 0;
    }
    saved_index_deinit(&index);
    return r != -EBADMSG ? r
                         : problem_set(problem, ERR_PROTOCOL_MISMATCH,
                                       "the sandbox says what cannot be read of its variables");
}

void saved_index_deinit(SavedIndex *index)
{
    json_object_put(index->said);
    free(index->variables);
    *index = SAVED_INDEX_NULL;
}
