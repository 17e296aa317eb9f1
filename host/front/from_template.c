#include "host/front/from_template.h"

#include "host/front/ops.h"

static void add_env(FromTemplate *from, MsgOptions *options)
{
    size_t size;

    if (template_env(&from->env, from->template, options->env.map) < 0)
        return;
    size = from->env.size;
    if (msgpack_unpack_next(&from->pairs, (const char *)buf_head(&from->env), size, NULL) ==
        MSGPACK_UNPACK_SUCCESS)
        options->env = (Value){.map = &from->pairs.data.via.map};
}

static Template *find(const Front *front, const Request *request, const MsgOptions *options)
{
    return templates_find(front->templates, request->user, options->template, true);
}

static void begin(FromTemplate *from)
{
    *from = (FromTemplate){0};
    msgpack_unpacked_init(&from->pairs);
}

bool from_template_find(FromTemplate *ret, const Front *front, Request *request, MsgOptions *options)
{
    begin(ret);
    if (!options->template.data || options->template.size == 0)
        return true;
    ret->template = template_ref(find(front, request, options));
    if (!ret->template) {
        request_fail_text(request, ERR_NO_SUCH_TEMPLATE,
                          "there is no template '%.*s'; `limpet template ls` lists those that there are",
                          (int)MIN(options->template.size, LIMIT_SESSION_NAME), options->template.data);
        return false;
    }
    if (!options->image.data && *ret->template->image)
        options->image = text_of(ret->template->image);
    add_env(ret, options);
    return true;
}

void from_template_compare(FromTemplate *ret, const Front *front, const Request *request, MsgOptions *options)
{
    begin(ret);
    if (options->template.data)
        ret->template = template_ref(find(front, request, options));
    if (ret->template && options->env.map)
        add_env(ret, options);
}

void from_template_deinit(FromTemplate *from)
{
    msgpack_unpacked_destroy(&from->pairs);
    buf_deinit(&from->env);
    template_unref(from->template);
}

/* ---- waiting ---- */

typedef struct WaitForSpare {
    PoolWaiter waiter;
    Front *front;
    Request *request; /* parked */
} WaitForSpare;

static void on_done(PoolWaiter *waiter, const PoolFailure *failure)
{
    WaitForSpare *wait = container_of(waiter, WaitForSpare, waiter);

    if (failure)
        request_fail_traceback(wait->request, &failure->problem, failure->traceback);
    else
        front_resume(wait->front, wait->request, NULL);
    free(wait);
}

void from_template_wait(Front *front, Request *request, const msgpack_object_map *body,
                        const FromTemplate *from, const SessionOptions *options, bool ephemeral)
{
    WaitForSpare *wait;
    Problem problem = PROBLEM_NULL;

    if (!front_park(request, NULL, body))
        return;
    wait = calloc(1, sizeof(*wait));
    if (wait)
        *wait = (WaitForSpare){.waiter.done = on_done, .front = front, .request = request};
    else
        problem_set(&problem, ERR_INTERNAL, "out of memory");
    if (wait && pool_wait(front->pool, from->template, options, ephemeral, &wait->waiter, &problem) == 0)
        return;
    request_fail(request, &problem);
    free(wait);
}
