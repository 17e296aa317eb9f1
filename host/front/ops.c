#include "host/front/ops.h"

#include <math.h>
#include <string.h>

#include "host/sandbox/data.h"
#include "host/session/checkpoint_files.h"
#include "host/session/epitaph.h"

static const Op *const ops[] = {
    &op_hello,       &op_open,        &op_run,       &op_exec,
    &op_interrupt,   &op_reset,       &op_close,     &op_sessions,
    &op_result,      &op_put,         &op_get,       &op_shutdown,
    &op_checkpoint,  &op_checkpoints, &op_rollback,  &op_drop,
    &op_branch,      &op_context,     &op_commit,    &op_namespace,
    &op_files,       &op_start,       &op_processes, &op_process,
    &op_connect,     &op_template,    &op_templates, &op_remove_template,
    &op_set_network, &op_save,        &op_load,      &op_export,
    &op_install,     &op_artifact,    &op_sleep,     &op_fork,
};

const Op *op_find(MessageKind kind)
{
    for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
        if (ops[i]->kind == kind)
            return ops[i];
    return NULL;
}

bool op_decode_as(Request *request, void *ret, const Schema *schema, const msgpack_object_map *body)
{
    Problem problem = PROBLEM_NULL;

    if (schema_decode(ret, schema, body, &problem) == 0)
        return true;
    request_fail(request, &problem);
    return false;
}

bool op_find_data(Front *front, Request *request, MsgOptions *options, char **ret_path)
{
    Problem problem = PROBLEM_NULL;

    if (!options->data.data)
        return true;
    if (!request_is_local(request, "data names a directory of the machine that the controller runs on"))
        return false;
    if (data_find(ret_path, front->paths, request->user, options->data, &problem) < 0) {
        request_fail(request, &problem);
        return false;
    }
    options->data = text_of(*ret_path);
    return true;
}

int op_check_call(Text run_id, double timeout, char ret_run_id[static LIMIT_RUN_ID + 1], Problem *problem)
{
    if (!run_id_valid(run_id))
        return problem_set(problem, ERR_BAD_REQUEST, "run_id must be %u lower-case hexadecimal digits",
                           LIMIT_RUN_ID);
    memcpy(ret_run_id, run_id.data, LIMIT_RUN_ID);
    ret_run_id[LIMIT_RUN_ID] = '\0';
    if (!isnan(timeout) && !(timeout > 0 && timeout <= TIMEOUT_MAXIMUM))
        return problem_set(problem, ERR_BAD_REQUEST, "timeout must be above 0 and at most %.0f seconds",
                           TIMEOUT_MAXIMUM);
    return 0;
}

static size_t size_of(const msgpack_object *value)
{
    if (value->type == MSGPACK_OBJECT_STR)
        return value->via.str.size;
    return value->type == MSGPACK_OBJECT_BIN ? value->via.bin.size : 0;
}

int op_check_program(const MsgProgram *program, Problem *problem)
{
    const msgpack_object_array *argv = program->argv.array;
    const msgpack_object_map *env = program->env.map;
    size_t arguments = 0, variables = 0;

    for (uint32_t i = 0; argv && i < argv->size; i++)
        arguments += size_of(&argv->ptr[i]);
    for (uint32_t i = 0; env && i < env->size; i++)
        variables += size_of(&env->ptr[i].key) + size_of(&env->ptr[i].val);
    if (arguments > LIMIT_ARGV_BYTES)
        return problem_set(problem, ERR_TOO_LARGE,
                           "the items of `argv` have at most %u bytes together; put more into a file",
                           LIMIT_ARGV_BYTES);
    if (variables > LIMIT_ENV_BYTES)
        return problem_set(problem, ERR_TOO_LARGE,
                           "the variables of `env` have at most %u bytes together; put more into a file",
                           LIMIT_ENV_BYTES);
    return 0;
}

int op_check_beside(const Session *session, Problem *problem)
{
    if (sandbox_count_beside(session->sandbox) < LIMIT_PROCESSES)
        return 0;
    return problem_set(problem, ERR_BUSY,
                       "%u commands and processes run in the session '%s' already; end one of them first",
                       LIMIT_PROCESSES, session->name);
}

bool op_refuse_ended(Front *front, Request *request, Text name)
{
    const Epitaph *epitaph = epitaph_find(&front->sessions->epitaphs, request->user, name);
    char words[EPITAPH_WORDS];

    if (!epitaph)
        return false;
    epitaph_words(words, epitaph);
    request_fail_text(
        request, ERR_NO_SUCH_SESSION, "the session '%s' %s; its variables are gone: %s", epitaph->name, words,
        strchr(epitaph->name, '/') ? "open a new branch with `branch`" : "open it again for a new session");
    return true;
}

/* Refuses a session that has the name of the one that was meant, and is another. */
static void refuse_other(Request *request, const Session *other, Text instance)
{
    const Epitaph *epitaph = epitaph_find(&other->all->epitaphs, other->user, text_of(other->name));
    char words[EPITAPH_WORDS] = "was closed";

    if (epitaph && text_equal(instance, epitaph->instance))
        epitaph_words(words, epitaph);
    request_fail_text(request, ERR_NO_SUCH_SESSION,
                      "another session of that name has been opened since yours %s; its variables are not "
                      "yours: open '%s' again to use it",
                      words, other->name);
}

Session *op_session(Front *front, Request *request, Text name, Text instance)
{
    Session *session = sessions_find(front->sessions, request->user, name);

    if (!session && !op_refuse_ended(front, request, name))
        request_fail_text(request, ERR_NO_SUCH_SESSION, "no session named '%.*s' is open; open it first",
                          (int)MIN(name.size, LIMIT_SESSION_PATH), name.data ? name.data : "");
    if (session && instance.data && !text_equal(instance, session->instance)) {
        refuse_other(request, session, instance);
        return NULL;
    }
    return session;
}

Session *op_target(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgTarget target;

    if (!op_decode(request, &target, MsgTarget, body))
        return NULL;
    return op_session(front, request, target.session, target.instance);
}

void *op_checkpoint_order(Front *front, Request *request, const msgpack_object_map *body, size_t size,
                          const OrderOps *kind)
{
    MsgCheckpointTarget target;
    Session *session;
    CheckpointOrder *order;

    if (!op_decode(request, &target, MsgCheckpointTarget, body))
        return NULL;
    session = op_session(front, request, target.session, target.instance);
    if (session && !name_valid(target.checkpoint)) {
        request_fail_text(request, ERR_NO_SUCH_CHECKPOINT,
                          "the session has no checkpoint with this id or name");
        return NULL;
    }
    order = session ? order_new(size, kind, session, request) : NULL;
    if (order)
        memcpy(order->checkpoint, target.checkpoint.data, target.checkpoint.size);
    return order;
}

void op_checkpoint_gone(const CheckpointOrder *order)
{
    checkpoint_files_drop(order->order.turn.sandbox, text_of(order->checkpoint));
}
