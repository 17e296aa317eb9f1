/* Templates: making, listing and removing them. */
#include <errno.h>

#include "clients/c/client.h"
#include "clients/c/options.h"

static int begin(LimpetClient *client, ClientCall *call, const LimpetTemplateSource *source)
{
    const MsgTemplateMake make = {
        .name = text_of(source->name),
        .session = text_of(source->session),
        .image = text_of(source->image),
        .env = env_say(source->env),
        .setup = text_of(source->setup),
        .replace = source->replace,
    };

    client->problem = PROBLEM_NULL;
    if (env_check(source->env, &client->problem) < 0)
        return -EPROTO;
    client_begin(client, call, MSG_TEMPLATE, MsgTemplateMake, &make);
    return 0;
}

int limpet_template(LimpetClient *client, const LimpetTemplateSource *source, char **traceback)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    ClientCall call = {0};
    int r;

    free(client->traceback);
    client->traceback = NULL;
    r = begin(client, &call, source);
    if (!r)
        r = client_call(client, &call, &reply);
    if (traceback)
        *traceback = r ? take(client->traceback) : NULL;
    return client_result(client, r);
}

static void read_template(LimpetTemplate *ret, const MsgTemplate *said, Arena *arena)
{
    *ret = (LimpetTemplate){
        .name = arena_text(arena, said->name),
        .user = said->user,
        .image = arena_text(arena, said->image),
        .has_files = said->files != NO_UINT,
        .files = uint_or(said->files, 0),
        .has_setup = said->setup != NO_UINT,
        .setup = uint_or(said->setup, 0),
        .created = said->created,
    };
    texts_read(&ret->env, &ret->n_env, &said->env, arena);
}

static int read_list(void *value, const msgpack_object_map *map, Arena *arena, Problem *problem)
{
    LimpetTemplate *templates;
    MsgTemplates body;
    int r = reply_decode(&body, MsgTemplates, map, problem);

    if (r < 0)
        return r;
    templates = arena_new(arena, value_count(&body.templates), sizeof(*templates));
    for (uint32_t i = 0; templates && i < value_count(&body.templates); i++) {
        MsgTemplate row;

        value_row(&row, MsgTemplate, &body.templates, i);
        read_template(&templates[i], &row, arena);
    }
    *(LimpetTemplates *)value = (LimpetTemplates){templates, value_count(&body.templates)};
    return 0;
}

int limpet_templates(LimpetClient *client, LimpetTemplates **ret)
{
    ClientCall call = {.repeatable = true};

    client_begin(client, &call, MSG_TEMPLATES, MsgNothing, &(MsgNothing){0});
    return answer_call(client, &call, sizeof(LimpetTemplates), read_list, ret);
}

int limpet_remove_template(LimpetClient *client, const char *name)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    ClientCall call = {0};

    client_begin(client, &call, MSG_REMOVE_TEMPLATE, MsgTemplateName,
                 &(MsgTemplateName){.name = text_of(name)});
    return client_result(client, client_call(client, &call, &reply));
}
