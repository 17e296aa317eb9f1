#include "host/template/template.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "proto/base/clock.h"

static Template *alloc(uid_t user, Text name)
{
    Template *tmpl = calloc(1, sizeof(*tmpl));
    uint64_t random;

    if (!tmpl || getrandom(&random, sizeof(random), 0) != sizeof(random)) {
        free(tmpl);
        return NULL;
    }
    snprintf(tmpl->id, sizeof(tmpl->id), "%016llx", (unsigned long long)random);
    snprintf(tmpl->name, sizeof(tmpl->name), "%.*s", (int)name.size, name.data);
    list_init(&tmpl->link);
    tmpl->references = 1;
    tmpl->user = user;
    tmpl->files = NO_UINT;
    tmpl->created = clock_unix();
    return tmpl;
}

static int copy_setup(Template *tmpl, Text setup, Problem *problem)
{
    if (!setup.data || setup.size == 0)
        return 0;
    if (memchr(setup.data, '\0', setup.size))
        return problem_set(problem, ERR_BAD_REQUEST, "setup: code cannot have a null character");
    tmpl->setup = text_dup(setup);
    return tmpl->setup ? 0 : problem_set(problem, ERR_INTERNAL, "out of memory");
}

int template_new(Template **ret, uid_t user, Text name, Text image, const Buf *env, Text setup,
                 Problem *problem)
{
    _cleanup_(template_unrefp) Template *tmpl = alloc(user, name);

    if (!tmpl || !(tmpl->image = image.data ? text_dup(image) : strdup("")) ||
        (env && buf_append(&tmpl->env, buf_head(env), env->size) < 0))
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    if (copy_setup(tmpl, setup, problem) < 0)
        return -EPROTO;
    *ret = take(tmpl);
    return 0;
}

Template *template_ref(Template *tmpl)
{
    if (tmpl)
        tmpl->references++;
    return tmpl;
}

Template *template_unref(Template *tmpl)
{
    if (!tmpl || --tmpl->references > 0)
        return NULL;
    list_remove(&tmpl->link);
    free(tmpl->image);
    free(tmpl->setup);
    free(tmpl->packages);
    buf_deinit(&tmpl->env);
    free(tmpl);
    return NULL;
}

/* ---- its environment ---- */

typedef struct Pairs {
    msgpack_unpacked unpacked;
    msgpack_object_map map; /* empty where there are none */
} Pairs;

static void pairs_open(Pairs *ret, const Buf *encoded)
{
    *ret = (Pairs){0};
    msgpack_unpacked_init(&ret->unpacked);
    if (encoded->size > 0 &&
        msgpack_unpack_next(&ret->unpacked, (const char *)buf_head(encoded), encoded->size, NULL) ==
            MSGPACK_UNPACK_SUCCESS &&
        ret->unpacked.data.type == MSGPACK_OBJECT_MAP)
        ret->map = ret->unpacked.data.via.map;
}

static void pairs_close(Pairs *pairs)
{
    msgpack_unpacked_destroy(&pairs->unpacked);
}

static bool has(const msgpack_object_map *map, const msgpack_object *key)
{
    for (uint32_t i = 0; map && i < map->size; i++)
        if (msgpack_object_equal(map->ptr[i].key, *key))
            return true;
    return false;
}

static void write_pair(Writer *w, const msgpack_object_kv *pair)
{
    write_object(w, &pair->key);
    write_object(w, &pair->val);
}

int template_env(Buf *ret, const Template *tmpl, const msgpack_object_map *given)
{
    uint32_t n = given ? given->size : 0, own = 0;
    Pairs pairs;
    Writer w;
    int r;

    pairs_open(&pairs, &tmpl->env);
    for (uint32_t i = 0; i < pairs.map.size; i++)
        own += !has(given, &pairs.map.ptr[i].key);
    writer_init(&w, ret);
    write_map(&w, own + n);
    for (uint32_t i = 0; i < pairs.map.size; i++)
        if (!has(given, &pairs.map.ptr[i].key))
            write_pair(&w, &pairs.map.ptr[i]);
    for (uint32_t i = 0; i < n; i++)
        write_pair(&w, &given->ptr[i]);
    r = writer_finish(&w);
    pairs_close(&pairs);
    return r;
}

/* ---- as clients are told ---- */

static void name_variables(Buf *ret, const Template *tmpl)
{
    Pairs pairs;
    Writer w;

    pairs_open(&pairs, &tmpl->env);
    writer_init(&w, ret);
    write_array(&w, pairs.map.size);
    for (uint32_t i = 0; i < pairs.map.size; i++)
        write_object(&w, &pairs.map.ptr[i].key);
    writer_finish(&w);
    pairs_close(&pairs);
}

MsgTemplate template_to_wire(const Template *tmpl, TemplateNames *names)
{
    *names = (TemplateNames){.encoded = BUF_NULL};
    name_variables(&names->encoded, tmpl);
    return (MsgTemplate){
        .name = text_of(tmpl->name),
        .user = tmpl->user,
        .image = text_of(*tmpl->image ? tmpl->image : NULL),
        .env = value_encoded(&names->encoded),
        .files = tmpl->files,
        .setup = tmpl->setup ? strlen(tmpl->setup) : NO_UINT,
        .created = tmpl->created,
    };
}

void template_names_deinit(TemplateNames *names)
{
    buf_deinit(&names->encoded);
}
