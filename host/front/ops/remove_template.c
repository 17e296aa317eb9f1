#include "host/front/ops.h"

/* Refuses to remove a template that is not there, or that the user may use and not remove. */
static void refuse(const Front *front, Request *request, Text name)
{
    if (templates_find(front->templates, request->user, name, true))
        request_fail_text(request, ERR_DENIED,
                          "the template '%.*s' is that of the controller's user, who alone removes it",
                          (int)name.size, name.data);
    else
        request_fail_text(request, ERR_NO_SUCH_TEMPLATE,
                          "there is no template '%.*s'; `limpet template ls` lists those that there are",
                          (int)name.size, name.data);
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    Problem problem = PROBLEM_NULL;
    MsgTemplateName asked;
    Template *tmpl;

    if (!op_decode(request, &asked, MsgTemplateName, body))
        return;
    tmpl = templates_find(front->templates, request->user, asked.name, false);
    if (!tmpl) {
        refuse(front, request, asked.name);
        return;
    }
    if (templates_forget(front->templates, tmpl, &problem) < 0) {
        request_fail(request, &problem);
        return;
    }
    pool_forget(front->pool, tmpl);
    templates_discard(front->templates, tmpl);
    request_reply_empty(request);
}

const Op op_remove_template = {.kind = MSG_REMOVE_TEMPLATE, .handle = handle};
