#include <errno.h>
#include <string.h>

#include "clients/c/json.h"
#include "clients/c/saving/manifest.h"
#include "proto/base/clock.h"

/* Options as a Python program gives them, which is how the archive has them. */

static void write_split(Writer *w, const msgpack_object *text, char separator)
{
    const char *at = text->via.str.ptr, *end = at + text->via.str.size;
    size_t n;

    if (at < end && end[-1] == separator)
        end--;
    n = at < end;
    for (const char *c = at; c < end; c++)
        n += *c == separator;
    write_array(w, n);
    for (; n > 0; n--) {
        const char *stop = memchr(at, separator, (size_t)(end - at));

        stop = stop ? stop : end;
        write_text_n(w, at, (size_t)(stop - at));
        at = stop < end ? stop + 1 : end;
    }
}

static bool is_text(const msgpack_object *value)
{
    return value->type == MSGPACK_OBJECT_STR;
}

static bool is_word(const msgpack_object *value, const char *word)
{
    return text_equal((Text){value->via.str.ptr, value->via.str.size}, word);
}

static bool has_rules(const msgpack_object *allow)
{
    return allow && allow->type == MSGPACK_OBJECT_ARRAY && allow->via.array.size > 0;
}

static void write_option(Writer *w, const char *key, const msgpack_object *value, const msgpack_object *allow)
{
    if (strcmp(key, "packages") == 0 && is_text(value)) {
        write_split(w, value, '\n');
    } else if (strcmp(key, "pip") == 0 && is_text(value) && !is_word(value, "refuse") &&
               !is_word(value, "allow")) {
        write_split(w, value, ',');
    } else if (strcmp(key, "network") == 0 && has_rules(allow)) {
        write_map(w, 1);
        write_key(w, "allow");
        write_object(w, allow);
    } else {
        write_object(w, value);
    }
}

static void write_options(Writer *w, const msgpack_object_map *options)
{
    static const char *const names[] = {
#define SESSION_OPTION(name, ...) #name,
#include "proto/session_options.def"
    };
    const msgpack_object *allow = map_find(options, "allow");
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        n += map_find(options, names[i]) && strcmp(names[i], "allow") != 0;
    write_map(w, n);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const msgpack_object *value = map_find(options, names[i]);

        if (!value || strcmp(names[i], "allow") == 0)
            continue;
        write_key(w, names[i]);
        write_option(w, names[i], value, allow);
    }
}

static void write_variables(Writer *w, const SavedIndex *index)
{
    write_map(w, index->n_variables);
    for (size_t i = 0; i < index->n_variables; i++) {
        write_text(w, index->variables[i].name);
        write_text(w, index->variables[i].why ? index->variables[i].why : "saved");
    }
}

static void write_requirements(Writer *w, struct json_object *requirements)
{
    if (requirements)
        json_pack(w, requirements);
    else
        write_array(w, 0);
}

static void write_facts(Writer *w, const ManifestFacts *facts)
{
    write_map(w, 13);
    write_key(w, "format");
    write_text(w, ARCHIVE_FORMAT);
    write_key(w, "version");
    write_uint(w, ARCHIVE_VERSION);
    write_key(w, "limpet");
    write_text(w, LIMPET_VERSION);
    write_key(w, "created");
    write_double(w, clock_unix());
    write_key(w, "session");
    write_text_n(w, facts->session.data, facts->session.size);
    write_key(w, "engine");
    write_text_n(w, facts->engine.data, facts->engine.size);
    write_key(w, "execution_count");
    write_uint(w, facts->execution_count);
    write_key(w, "options");
    write_options(w, facts->options);
    write_key(w, "python");
    write_text_n(w, facts->index->python.data, facts->index->python.size);
    write_key(w, "packages");
    json_pack_sorted(w, facts->index->packages);
    write_key(w, "requirements");
    write_requirements(w, facts->index->requirements);
    write_key(w, "variables");
    write_variables(w, facts->index);
    write_key(w, "skipped");
    write_array(w, facts->skipped->n);
    for (size_t i = 0; i < facts->skipped->n; i++)
        write_name(w, facts->skipped->texts[i]);
}

int manifest_write(Buf *to, const ManifestFacts *facts)
{
    _cleanup_(buf_deinit) Buf packed = BUF_NULL;
    msgpack_unpacked all;
    Writer w;
    int r;

    writer_init(&w, &packed);
    write_facts(&w, facts);
    r = writer_finish(&w);
    if (r < 0)
        return r;
    msgpack_unpacked_init(&all);
    r = msgpack_unpack_next(&all, (const char *)buf_head(&packed), packed.size, NULL) ==
                MSGPACK_UNPACK_SUCCESS
            ? json_write_indented(to, &all.data, JSON_PATH)
            : -ENOMEM;
    msgpack_unpacked_destroy(&all);
    return r < 0 ? r : buf_append(to, "\n", 1);
}
