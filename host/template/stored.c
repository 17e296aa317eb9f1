#include "host/template/stored.h"

#include <errno.h>
#include <string.h>

#define SCHEMA_FILE "host/template/template.def"
#include "proto/schema/as_structs.h"
#define SCHEMA_FILE "host/template/template.def"
#include "proto/schema/as_tables.h"

int stored_encode(Buf *ret, const Template *tmpl)
{
    StoredTemplate stored = {
        .id = text_of(tmpl->id),
        .name = text_of(tmpl->name),
        .user = tmpl->user,
        .image = text_of(*tmpl->image ? tmpl->image : NULL),
        .setup = text_of(tmpl->setup),
        .packages = text_of(tmpl->packages),
        .files = tmpl->files,
        .created = tmpl->created,
    };

    if (tmpl->env.size > 0)
        stored.env = value_encoded(&tmpl->env);
    return body_encode(ret, StoredTemplate, &stored);
}

static bool is_hexadecimal(Text text)
{
    for (size_t i = 0; i < text.size; i++)
        if (!memchr("0123456789abcdef", text.data[i], 16))
            return false;
    return true;
}

static int take_stored(Template **ret, const StoredTemplate *stored, Problem *problem)
{
    Buf env _cleanup_(buf_deinit) = BUF_NULL;
    Template *tmpl;
    Writer w;
    int r = 0;

    if (stored->id.size != TEMPLATE_ID_SIZE - 1 || !is_hexadecimal(stored->id) ||
        !is_hexadecimal(stored->packages))
        return problem_set(problem, ERR_BAD_REQUEST, "an invalid id");
    if (stored->env.map) {
        writer_init(&w, &env);
        write_object(&w, &(msgpack_object){.type = MSGPACK_OBJECT_MAP, .via.map = *stored->env.map});
        r = writer_finish(&w);
    }
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    r = template_new(&tmpl, (uid_t)stored->user, stored->name, stored->image, &env, stored->setup, problem);
    if (r < 0)
        return r;
    if (stored->packages.data && !(tmpl->packages = text_dup(stored->packages))) {
        template_unref(tmpl);
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    }
    memcpy(tmpl->id, stored->id.data, stored->id.size);
    tmpl->files = stored->files;
    tmpl->created = stored->created;
    *ret = tmpl;
    return 0;
}

int stored_decode(Template **ret, const void *bytes, size_t size, Problem *problem)
{
    msgpack_unpacked unpacked;
    StoredTemplate stored = {0};
    int r;

    if (wire_check(bytes, size) < 0)
        return problem_set(problem, ERR_BAD_REQUEST, "it is damaged");
    msgpack_unpacked_init(&unpacked);
    if (msgpack_unpack_next(&unpacked, bytes, size, NULL) != MSGPACK_UNPACK_SUCCESS ||
        unpacked.data.type != MSGPACK_OBJECT_MAP)
        r = problem_set(problem, ERR_BAD_REQUEST, "it is damaged");
    else
        r = body_decode(&stored, StoredTemplate, &unpacked.data.via.map, problem);
    if (r == 0)
        r = take_stored(ret, &stored, problem);
    msgpack_unpacked_destroy(&unpacked);
    return r;
}
