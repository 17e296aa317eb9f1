/* Templates: template, templates, remove_template. */
#include <errno.h>
#include <string.h>

#include "host/front/ops.h"
#include "host/session/checkpoint_files.h"

/* ---- template: one is made, tried once, and kept when that went well ---- */

/* A template that is being made. */
typedef struct Making {
    PoolWaiter waiter;
    Front *front;
    Request *request;
    Template *template;
    bool replace;
} Making;

static void making_free(Making *making)
{
    template_unref(making->template);
    free(making);
}

/* Nothing of it is kept. */
static void fail_making(Making *making, const Problem *problem, Text traceback)
{
    pool_forget(making->front->pool, making->template);
    request_fail_traceback(making->request, problem, traceback);
    templates_discard(making->front->templates, take(making->template));
    making_free(making);
}

static void fail_plain(Making *making, const Problem *problem)
{
    fail_making(making, problem, (Text){0});
}

/* ---- the end: it is tried ---- */

static void reply_made(Making *making)
{
    TemplateNames names;
    const MsgTemplateMade made = {.template = template_to_wire(making->template, &names)};

    request_answer(making->request, MsgTemplateMade, &made);
    template_names_deinit(&names);
}

static int check_name(const Front *front, uid_t user, Text name, bool replace, Problem *problem)
{
    if (templates_find(front->templates, user, name, false))
        return replace ? 0
                       : problem_set(problem, ERR_TEMPLATE_EXISTS,
                                     "there is a template '%.*s' already; choose another name, remove it, or "
                                     "replace it",
                                     (int)name.size, name.data);
    if (templates_count(front->templates, user) < LIMIT_TEMPLATES)
        return 0;
    return problem_set(problem, ERR_LIMIT_REACHED,
                       "you have %u templates, which is the limit; remove one first", LIMIT_TEMPLATES);
}

static void on_written(void *userdata, FileServiceAnswer *answer)
{
    Making *making = userdata;
    Templates *templates = making->front->templates;
    Template *tmpl = making->template, *old;
    Problem problem = PROBLEM_NULL;

    if (answer->problem) {
        fail_plain(making, answer->problem);
        return;
    }
    if (check_name(making->front, tmpl->user, text_of(tmpl->name), making->replace, &problem) < 0 ||
        templates_keep(templates, tmpl, &old, &problem) < 0) {
        fail_plain(making, &problem);
        return;
    }
    template_ref(tmpl); /* theirs */
    if (old) {
        pool_forget(making->front->pool, old);
        templates_discard(templates, old);
    }
    reply_made(making);
    making_free(making);
}

static void on_tried(PoolWaiter *waiter, const PoolFailure *failure)
{
    Making *making = container_of(waiter, Making, waiter);
    Problem problem = PROBLEM_NULL;

    if (failure)
        fail_making(making, &failure->problem, failure->traceback);
    else if (templates_write(making->front->templates, making->template, on_written, making, &problem) < 0)
        fail_plain(making, &problem);
}

static void try_it(Making *making)
{
    const Template *tmpl = making->template;
    SessionOptions options _cleanup_(session_options_deinit) = {0};
    Problem problem = PROBLEM_NULL;
    MsgOptions given;

    body_clear(&given, MsgOptions);
    given.template = text_of(tmpl->name);
    given.image = text_of(*tmpl->image ? tmpl->image : NULL);
    if (session_options_settle(&options, &given, making->front->options, &problem) < 0 ||
        pool_wait(making->front->pool, making->template, &options, false, &making->waiter, &problem) < 0)
        fail_plain(making, &problem);
}

/* ---- its files ---- */

/* In the session's turn, so that nothing runs there meanwhile. */
typedef struct CopyOrder {
    Order order;
    Making *making; /* NULL once that has gone on */
    bool copied;
} CopyOrder;

static void on_files_copied(Order *order, const Problem *problem, const JobAnswer *answer)
{
    CopyOrder *copy = container_of(order, CopyOrder, order);

    if (problem) {
        order_fail(order, problem);
        return;
    }
    copy->making->template->files = answer->as_TAKE_TEMPLATE.bytes;
    order_reply(order, NULL);
}

/* From here on there may be something to be removed. */
static void start_copy(Order *order)
{
    Template *tmpl = container_of(order, CopyOrder, order)->making->template;
    Problem problem = PROBLEM_NULL;

    tmpl->files = 0;
    if (checkpoint_files_take_template(order, tmpl->id, on_files_copied, &problem) < 0)
        order_fail(order, &problem);
}

static void copy_over(Order *order, const Problem *problem)
{
    Making *making = take(container_of(order, CopyOrder, order)->making);

    if (problem)
        fail_plain(making, problem);
    else
        try_it(making);
}

static const OrderOps copy_ops = {.start = start_copy, .over = copy_over};

static void copy_files(Making *making, Session *session)
{
    CopyOrder *copy = order_new(sizeof(*copy), &copy_ops, session, NULL);
    Problem problem = PROBLEM_NULL;

    if (!copy) {
        problem_set(&problem, ERR_INTERNAL, "out of memory");
        fail_plain(making, &problem);
        return;
    }
    copy->making = making;
    order_queue(&copy->order);
}

/* ---- the beginning ---- */

static Making *making_new(Front *front, Request *request, Template *tmpl, bool replace)
{
    Making *making = calloc(1, sizeof(*making));

    if (making)
        *making = (Making){.waiter.done = on_tried,
                           .front = front,
                           .request = request,
                           .template = tmpl,
                           .replace = replace};
    return making;
}

/* Defines a template. Options that were not given are those of the session, where there is one. */
static int define_template(Template **ret, const Front *front, uid_t user, const MsgTemplateMake *asked,
                           const Session *session, Problem *problem)
{
    SessionOptions options _cleanup_(session_options_deinit) = {0};
    const Sandbox *of = session ? session->sandbox : NULL;
    Template *tmpl _cleanup_(template_unrefp) = NULL;
    Text image = asked->image;
    MsgOptions given;

    if (!image.data && of && *of->options.image)
        image = text_of(of->options.image);
    body_clear(&given, MsgOptions);
    given.image = image;
    given.env = asked->env;
    if (session_options_settle(&options, &given, front->options, problem) < 0)
        return -EPROTO;
    if (template_new(&tmpl, user, asked->name, image, asked->env.map || !of ? &options.env : &of->options.env,
                     asked->setup, problem) < 0 ||
        !tmpl)
        return -EPROTO;
    if (of && *of->packages && !(tmpl->packages = strdup(of->packages)))
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    *ret = take(tmpl);
    return 0;
}

static void make_template(Front *front, Request *request, const MsgTemplateMake *asked, Session *session)
{
    Problem problem = PROBLEM_NULL;
    Template *tmpl = NULL;
    Making *making = NULL;

    if (check_name(front, request->user, asked->name, asked->replace, &problem) == 0 &&
        define_template(&tmpl, front, request->user, asked, session, &problem) == 0 && tmpl) {
        making = making_new(front, request, tmpl, asked->replace);
        if (!making)
            problem_set(&problem, ERR_INTERNAL, "out of memory");
    }
    if (!making) {
        template_unref(tmpl);
        request_fail(request, &problem);
    } else if (session) {
        copy_files(making, session);
    } else {
        try_it(making);
    }
}

static void handle_template(Front *front, Request *request, const msgpack_object_map *body)
{
    Session *session = NULL;
    MsgTemplateMake asked;

    if (!op_decode(request, &asked, MsgTemplateMake, body))
        return;
    if (asked.session.data) {
        session = op_session(front, request, asked.session, asked.instance);
        if (!session)
            return;
    }
    make_template(front, request, &asked, session);
}

const Op op_template = {.kind = MSG_TEMPLATE, .handle = handle_template};

/* ---- templates ---- */

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
    const MsgTemplate row = template_to_wire(tmpl, &names);

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

static void handle_templates(Front *front, Request *request, const msgpack_object_map *body)
{
    const TemplateListing listing = {front->templates, request->user};
    MsgNothing nothing;

    if (op_decode(request, &nothing, MsgNothing, body))
        request_answer(request, MsgTemplates,
                       (&(MsgTemplates){.templates = {.write = write_rows, .source = &listing}}));
}

const Op op_templates = {.kind = MSG_TEMPLATES, .handle = handle_templates};

/* ---- remove_template ---- */

/* Refuses to remove a template that is not there, or that the user may use and not remove. */
static void refuse_removal(const Front *front, Request *request, Text name)
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

static void handle_remove_template(Front *front, Request *request, const msgpack_object_map *body)
{
    Problem problem = PROBLEM_NULL;
    MsgTemplateName asked;
    Template *tmpl;

    if (!op_decode(request, &asked, MsgTemplateName, body))
        return;
    tmpl = templates_find(front->templates, request->user, asked.name, false);
    if (!tmpl) {
        refuse_removal(front, request, asked.name);
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

const Op op_remove_template = {.kind = MSG_REMOVE_TEMPLATE, .handle = handle_remove_template};
