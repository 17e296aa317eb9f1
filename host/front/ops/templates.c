#include "host/front/ops.h"

typedef struct TemplateListing {
    const Templates *templates;
    uid_t user;
} TemplateListing;

/* Returns whether the template is the one that the user gets by its name. */
static bool is_listed(const TemplateListing *listing, const Template *tmpl)
{
    return templates_find(listing->templates, listing->user, text_of(tmpl->name), true) == tmpl;
}

static void write_row(Writer *w, const Template *tmpl)
{
    TemplateNames names;
    const MsgTemplate row = template_say(tmpl, &names);

    body_write(w, MsgTemplate, &row);
    template_names_deinit(&names);
}

static void write_rows(Writer *w, const void *source)
{
    const TemplateListing *listing = source;
    const Template *tmpl;
    size_t n = 0;

    list_foreach (tmpl, &listing->templates->all, Template, link)
        n += is_listed(listing, tmpl);
    write_array(w, n);
    list_foreach (tmpl, &listing->templates->all, Template, link)
        if (is_listed(listing, tmpl))
            write_row(w, tmpl);
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    const TemplateListing listing = {front->templates, request->user};
    MsgNothing nothing;

    if (op_decode(request, &nothing, MsgNothing, body))
        request_answer(request, MsgTemplates,
                       (&(MsgTemplates){.templates = {.write = write_rows, .source = &listing}}));
}

const Op op_templates = {.kind = MSG_TEMPLATES, .handle = handle};
