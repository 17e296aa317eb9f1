/* Programs in a session: limpet_exec(), processes, and connections to their ports. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "clients/c/client.h"
#include "clients/c/options.h"
#include "clients/c/run.h"

/* Names of files may be bytes that are no text. */
static void write_argv(Writer *w, const void *source)
{
    const char *const *argv = source;
    size_t n = 0;

    while (argv[n])
        n++;
    write_array(w, n);
    for (size_t i = 0; i < n; i++)
        write_name(w, argv[i]);
}

/* Fills in the program; it points to what `program` does. 0, or -EPROTO with the problem. */
static int program_say(MsgProgram *ret, const LimpetProgram *program, Problem *problem)
{
    if (!program->command == !program->argv)
        return problem_set(problem, ERR_BAD_REQUEST, "give either a command line or arguments");
    if (program->command && strlen(program->command) > LIMIT_COMMAND)
        return problem_set(problem, ERR_TOO_LARGE,
                           "a command line has at most %u bytes; put more into a file", LIMIT_COMMAND);
    if (program->stdin_size > LIMIT_STDIN)
        return problem_set(problem, ERR_TOO_LARGE,
                           "the standard input of a command has at most %u bytes; put more into a file",
                           LIMIT_STDIN);
    *ret = (MsgProgram){
        .command = text_of(program->command),
        .cwd = text_of(program->cwd),
        .stdin = {program->stdin_data, program->stdin_size},
    };
    if (program->argv)
        ret->argv = (Value){.write = write_argv, .source = program->argv};
    ret->env = env_say(program->env);
    return env_check(program->env, problem);
}

/* ---- limpet_exec() ---- */

static int begin(LimpetClient *client, RunCall *run_call, const LimpetExec *exec, char *run_id)
{
    MsgExec said = {
        .session = text_of(exec->session),
        .instance = text_of(exec->instance),
        .run_id = text_of(run_call->call.run_id),
        .timeout = exec->timeout == 0 ? NAN : exec->timeout,
        .stream = exec->on_output,
    };
    int r = 0;

    client->problem = PROBLEM_NULL;
    if (!exec->run_id)
        r = run_make_id(run_id, &client->problem);
    if (!r)
        r = program_say(&said.program, &exec->program, &client->problem);
    if (r < 0)
        return r;
    said.run_id = text_of(run_call->call.run_id);
    client_begin(client, &run_call->call, MSG_EXEC, MsgExec, &said);
    return 0;
}

int limpet_exec(LimpetClient *client, const LimpetExec *exec, LimpetResult **ret)
{
    char run_id[LIMIT_RUN_ID + 1] = "";
    const LimpetRun callbacks = {.on_output = exec->on_output, .context = exec->context};
    RunCall run_call = {
        .call = {.repeatable = true,
                 .run_id = exec->run_id ? exec->run_id : run_id,
                 .on_event = run_on_event},
        .run = &callbacks,
    };
    int r = begin(client, &run_call, exec, run_id);

    if (!r)
        r = run_wait(client, &run_call, ret);
    return client_result(client, r);
}

/* ---- processes ---- */

/* ---- one more ---- */

static int say_start(LimpetClient *client, const LimpetStart *start, const char *run_id, MsgStart *ret)
{
    *ret = (MsgStart){
        .session = text_of(start->session),
        .instance = text_of(start->instance),
        .run_id = text_of(run_id),
    };
    if (program_say(&ret->launch.program, &start->program, &client->problem) < 0)
        return -EPROTO;
    ret->launch.name = text_of(start->name);
    ret->launch.has_terminal = start->terminal;
    if (start->terminal)
        ret->launch.terminal = (MsgTerminal){start->terminal->rows, start->terminal->columns};
    return 0;
}

int limpet_start(LimpetClient *client, const LimpetStart *start, char ret_run_id[LIMPET_RUN_ID_SIZE])
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    ClientCall call = {.repeatable = true};
    MsgStart said;
    int r = 0;

    client->problem = PROBLEM_NULL;
    if (start->run_id)
        snprintf(ret_run_id, LIMPET_RUN_ID_SIZE, "%s", start->run_id);
    else
        r = run_make_id(ret_run_id, &client->problem);
    if (!r)
        r = say_start(client, start, start->run_id ? start->run_id : ret_run_id, &said);
    if (!r) {
        client_begin(client, &call, MSG_START, MsgStart, &said);
        r = client_call(client, &call, &reply);
    }
    return client_result(client, r);
}

/* ---- all of them ---- */

static void read_process(LimpetProcess *ret, const MsgProcessRow *said, Arena *arena)
{
    *ret = (LimpetProcess){
        .run_id = arena_text(arena, said->run_id),
        .name = arena_text(arena, said->name),
        .kind = arena_text(arena, said->kind),
        .pid = said->pid,
        .command = arena_text(arena, said->command),
        .running = said->running,
        .terminal = said->terminal,
        .age = said->age,
        .has_exit_code = said->exit_code != NO_INT,
        .has_signal = said->signal != NO_INT,
    };
    if (ret->has_exit_code)
        ret->exit_code = (int)said->exit_code;
    if (ret->has_signal)
        ret->signal = (int)said->signal;
}

static int read_processes(void *value, const msgpack_object_map *map, Arena *arena, Problem *problem)
{
    LimpetProcess *processes;
    MsgProcessesReply body;
    int r = reply_decode(&body, MsgProcessesReply, map, problem);

    if (r < 0)
        return r;
    processes = arena_new(arena, value_count(&body.processes), sizeof(*processes));
    for (uint32_t i = 0; processes && i < value_count(&body.processes); i++) {
        MsgProcessRow row;

        value_row(&row, MsgProcessRow, &body.processes, i);
        read_process(&processes[i], &row, arena);
    }
    *(LimpetProcesses *)value = (LimpetProcesses){processes, value_count(&body.processes)};
    return 0;
}

int limpet_processes(LimpetClient *client, const char *session, LimpetProcesses **ret)
{
    ClientCall call = {.repeatable = true};

    client_begin(client, &call, MSG_PROCESSES, MsgTarget, &(MsgTarget){.session = text_of(session)});
    return answer_call(client, &call, sizeof(LimpetProcesses), read_processes, ret);
}

/* ---- one of them ---- */

static void begin_ask(LimpetClient *client, ClientCall *call, const char *session, const MsgProcessAsk *ask)
{
    client_begin(client, call, MSG_PROCESS, MsgProcess,
                 &((MsgProcess){.session = text_of(session), .has_ask = true, .ask = *ask}));
}

static int ask_for_nothing(LimpetClient *client, const char *session, const MsgProcessAsk *ask, bool once)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    ClientCall call = {.repeatable = !once};

    begin_ask(client, &call, session, ask);
    return client_call(client, &call, &reply);
}

/* Sends a piece of input. Its key keeps it from being sent twice when the controller goes away. */
static int send_piece(LimpetClient *client, const char *session, const char *process, Text bytes, bool end)
{
    char key[LIMIT_RUN_ID + 1];
    MsgProcessAsk ask = {.process = text_of(process), .has_send = true};
    int r = run_make_id(key, &client->problem);

    if (r < 0)
        return r;
    ask.send = (MsgProcessSend){.key = text_of(key), .data = bytes, .end = end};
    return ask_for_nothing(client, session, &ask, false);
}

int limpet_process_send(LimpetClient *client, const char *session, const char *process, const void *bytes,
                        size_t size, bool end)
{
    const char *at = bytes;
    int r = 0;

    client->problem = PROBLEM_NULL;
    do {
        size_t n = MIN(size, (size_t)LIMIT_FILE_CHUNK);

        r = send_piece(client, session, process, (Text){at, n}, end && n == size);
        at += n;
        size -= n;
    } while (r == 0 && size > 0);
    return client_result(client, r);
}

int limpet_process_signal(LimpetClient *client, const char *session, const char *process, int number,
                          bool alone)
{
    const MsgProcessAsk ask = {.process = text_of(process),
                               .has_signal = true,
                               .signal = {.number = (uint64_t)MAX(number, 0), .alone = alone}};

    return client_result(client, ask_for_nothing(client, session, &ask, true));
}

int limpet_process_resize(LimpetClient *client, const char *session, const char *process,
                          const LimpetTerminalSize *size)
{
    const MsgProcessAsk ask = {
        .process = text_of(process), .has_resize = true, .resize = {size->rows, size->columns}};

    return client_result(client, ask_for_nothing(client, session, &ask, false));
}

/* ---- its output ---- */

static int read_output(void *value, const msgpack_object_map *map, Arena *arena, Problem *problem)
{
    LimpetPiece *pieces;
    MsgProcessOutputReply body;
    int r = reply_decode(&body, MsgProcessOutputReply, map, problem);

    if (r < 0)
        return r;
    pieces = arena_new(arena, value_count(&body.pieces), sizeof(*pieces));
    for (uint32_t i = 0; pieces && i < value_count(&body.pieces); i++) {
        MsgPiece piece;

        value_row(&piece, MsgPiece, &body.pieces, i);
        pieces[i] = (LimpetPiece){(int)piece.stream, piece.data.data, piece.data.size};
    }
    *(LimpetOutput *)value = (LimpetOutput){
        .since = body.since,
        .next = body.next,
        .ended = body.ended,
        .pieces = pieces,
        .n_pieces = value_count(&body.pieces),
    };
    return 0;
}

int limpet_process_output(LimpetClient *client, const char *session, const char *process, uint64_t since,
                          double timeout, LimpetOutput **ret)
{
    const MsgProcessAsk ask = {
        .process = text_of(process), .has_output = true, .output = {.since = since, .timeout = timeout}};
    ClientCall call = {.repeatable = true};

    begin_ask(client, &call, session, &ask);
    return answer_call(client, &call, sizeof(LimpetOutput), read_output, ret);
}

/* ---- ports ---- */

/* The connection itself becomes that to the port: no descriptor comes through a command. */
static int connect_dialled(LimpetClient *client, const MsgConnect *said, int *ret)
{
    LimpetClient *other = limpet_new();
    ClientCall call = {0};
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    int r;

    if (!other)
        return -ENOMEM;
    r = limpet_connect(other, client->address.path) ? -EPROTO : 0;
    if (!r) {
        other->connection.sips = true;
        client_begin(other, &call, MSG_CONNECT, MsgConnect, said);
        r = client_call(other, &call, &reply);
    }
    if (r < 0)
        client->problem = other->problem;
    else
        *ret = connection_take_stream(&other->connection);
    limpet_free(other);
    return r;
}

int limpet_connect_port(LimpetClient *client, const char *session, unsigned port, int *ret_fd)
{
    const MsgConnect said = {.session = text_of(session), .order.port = port};
    ClientCall call = {.repeatable = true};
    int fd = -1, r;

    client->problem = PROBLEM_NULL;
    if (client->address.dialled)
        return client_result(client, connect_dialled(client, &said, ret_fd));
    r = client_ask_descriptor(client, &call, MSG_CONNECT, MsgConnect, &said, &fd);
    if (!r && fd < 0)
        r = problem_set(&client->problem, ERR_INTERNAL, "the controller passed no connection");
    if (!r)
        *ret_fd = fd;
    return client_result(client, r);
}
