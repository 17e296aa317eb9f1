#include <errno.h>
#include <math.h>
#include <string.h>

#include "clients/c/saving/manifest.h"

/* By whoever opens a session, not by a file that somebody has made. */
static const char *const granted[] = {"bindings", "build", "data", "network", "pip"};

/* Options that are not taken over: a template's contribution is saved itself, and `allow` is within
 * `network`. */
static const char *const left_out[] = {"bindings", "build", "data", "network", "pip", "allow", "template"};

static bool is_left_out(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(left_out); i++)
        if (strcmp(left_out[i], name) == 0)
            return true;
    return false;
}

/* ---- the options ---- */

/* A list of requirements is one text on the wire. */
static int pack_packages(Writer *w, struct json_object *list)
{
    _cleanup_(buf_deinit) Buf lines = BUF_NULL;

    if (!json_object_is_type(list, json_type_array))
        return -EBADMSG;
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *line = json_object_array_get_idx(list, i);

        if (!json_object_is_type(line, json_type_string))
            return -EBADMSG;
        if ((i > 0 && buf_append(&lines, "\n", 1) < 0) ||
            buf_append(&lines, json_text(line).data, json_text(line).size) < 0)
            return -ENOMEM;
    }
    write_text_n(w, lines.size ? (const char *)buf_head(&lines) : "", lines.size);
    return 0;
}

/* False: it is left out, or was not said. What was installed is installed as it was, by versions and hashes.
 */
static bool find_option(const Manifest *manifest, struct json_object *options, const char *name,
                        struct json_object **ret)
{
    if (is_left_out(name))
        return false;
    if (manifest->requirements && strcmp(name, "packages") == 0) {
        *ret = manifest->requirements;
        return true;
    }
    return json_object_object_get_ex(options, name, ret);
}

static int pack_options(Writer *w, const Manifest *manifest, struct json_object *options)
{
    static const char *const names[] = {
#define SESSION_OPTION(name, ...) #name,
#include "proto/session_options.def"
    };
    struct json_object *value;
    size_t n = 0;
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        n += find_option(manifest, options, names[i], &value);
    write_map(w, n);
    for (size_t i = 0; i < ARRAY_SIZE(names) && r == 0; i++) {
        if (!find_option(manifest, options, names[i], &value))
            continue;
        write_key(w, names[i]);
        if (value && strcmp(names[i], "packages") == 0)
            r = pack_packages(w, value);
        else
            json_pack(w, value);
    }
    return r;
}

static int read_options(Manifest *manifest, struct json_object *options)
{
    Problem problem = PROBLEM_NULL;
    Writer w;
    int r, finished;

    writer_init(&w, &manifest->packed);
    r = pack_options(&w, manifest, options);
    finished = writer_finish(&w);
    if (r < 0 || finished < 0)
        return r < 0 ? r : finished;
    if (wire_check(buf_head(&manifest->packed), manifest->packed.size) < 0 ||
        msgpack_unpack_next(&manifest->unpacked, (const char *)buf_head(&manifest->packed),
                            manifest->packed.size, NULL) != MSGPACK_UNPACK_SUCCESS ||
        body_decode_known(&manifest->options, MsgOptions, &manifest->unpacked.data.via.map, &problem) < 0)
        return -EBADMSG;
    return 0;
}

/* ---- the rest ---- */

static int read_count(struct json_object *said, uint64_t *ret)
{
    struct json_object *count = json_member(said, "execution_count", json_type_int);

    if (!count || json_object_get_int64(count) < 0 || json_object_get_uint64(count) > INT64_MAX)
        return -EBADMSG;
    *ret = json_object_get_uint64(count);
    return 0;
}

static int read_requirements(Manifest *manifest)
{
    struct json_object *list;

    if (!json_object_object_get_ex(manifest->said, "requirements", &list))
        return 0;
    if (!json_object_is_type(list, json_type_array) || !json_are_texts(list))
        return -EBADMSG;
    manifest->requirements = json_object_array_length(list) > 0 ? list : NULL;
    return 0;
}

static int read_said(Manifest *manifest, ArchiveReader *archive)
{
    struct json_object *format = json_member(manifest->said, "format", json_type_string);
    struct json_object *version = json_member(manifest->said, "version", json_type_int);
    struct json_object *options = json_member(manifest->said, "options", json_type_object);
    int r = format && version && options && text_equal(json_text(format), ARCHIVE_FORMAT)
                ? read_count(manifest->said, &manifest->execution_count)
                : -EBADMSG;

    if (r == 0 && json_object_get_int64(version) != ARCHIVE_VERSION)
        return archive_damaged(archive,
                               "has version %lld of the format, and this is version %d: use a newer Limpet",
                               (long long)json_object_get_int64(version), ARCHIVE_VERSION);
    if (r == 0)
        r = read_requirements(manifest);
    return r ? r : read_options(manifest, options);
}

int manifest_read(Manifest *ret, ArchiveReader *archive)
{
    _cleanup_(buf_deinit) Buf bytes = BUF_NULL;
    int r;

    *ret = (Manifest){0};
    msgpack_unpacked_init(&ret->unpacked);
    r = archive_next(archive);
    if (r < 0)
        return r;
    if (r == 0)
        return archive_damaged(archive, "is malformed: something in it does not end");
    if (archive->member.kind != MEMBER_FILE || archive->member.size > ARCHIVE_JSON_MAX ||
        strcmp(archive->member.name, ARCHIVE_MANIFEST) != 0)
        return archive_damaged(archive, "has no manifest");
    r = archive_whole(archive, &bytes);
    if (r < 0)
        return r;
    ret->said = json_read(buf_head(&bytes), bytes.size);
    r = read_said(ret, archive);
    return r == -EBADMSG ? archive_damaged(archive, "has a manifest that cannot be read") : r;
}

void manifest_deinit(Manifest *manifest)
{
    json_object_put(manifest->said);
    msgpack_unpacked_destroy(&manifest->unpacked);
    buf_deinit(&manifest->packed);
}

/* ---- options that are given ---- */

static bool is_given_number(double value)
{
    return !isnan(value);
}

static bool is_given_count(uint64_t value)
{
    return value != NO_UINT;
}

static bool is_given_size(Size value)
{
    return value.text.data || value.bytes != NO_UINT;
}

static bool is_given_text(Text value)
{
    return value.data != NULL;
}

static bool is_given_value(Value value)
{
    return value.write || value.object;
}

#define IS_GIVEN_SECONDS   is_given_number
#define IS_GIVEN_NUMBER    is_given_number
#define IS_GIVEN_COUNT     is_given_count
#define IS_GIVEN_SIZE      is_given_size
#define IS_GIVEN_CHOICE    is_given_text
#define IS_GIVEN_TEXT      is_given_text
#define IS_GIVEN_DIRECTORY is_given_text
#define IS_GIVEN_PAIRS     is_given_value
#define IS_GIVEN_LIST      is_given_value
#define IS_GIVEN_BINDINGS  is_given_value

void manifest_complete(const Manifest *manifest, MsgOptions *given)
{
#define SESSION_OPTION(name, kind, ...)                                                                      \
    if (!IS_GIVEN_##kind(given->name))                                                                       \
        given->name = manifest->options.name;
#include "proto/session_options.def"
}

/* Returns whether the value lets code reach something. */
static bool reaches(struct json_object *value)
{
    Text text;

    switch (json_object_get_type(value)) {
    case json_type_null:
        return false;
    case json_type_string:
        text = json_text(value);
        return text.size > 0 && !text_equal(text, "none") && !text_equal(text, "refuse");
    case json_type_array:
        return json_object_array_length(value) > 0;
    case json_type_object:
        return json_object_object_length(value) > 0;
    default:
        return true;
    }
}

int manifest_note_not_granted(const Manifest *manifest, const MsgOptions *given, NoteList *notes)
{
    const bool again[] = {
        is_given_value(given->bindings), is_given_text(given->build), is_given_text(given->data),
        is_given_text(given->network) || is_given_value(given->allow), is_given_text(given->pip)};
    struct json_object *options = json_member(manifest->said, "options", json_type_object), *value;
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(granted); i++)
        if (!again[i] && json_object_object_get_ex(options, granted[i], &value) && reaches(value))
            r = note_list_add(notes, "'%s' lets code reach more, and is not taken from a file: give it again",
                              granted[i]);
    return r;
}
