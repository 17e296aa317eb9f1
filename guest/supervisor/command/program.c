#include "guest/supervisor/command/program.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SHELL "bash"

static int out_of_memory(Problem *problem)
{
    return problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM));
}

/* ---- arguments ---- */

static Text argument_of(const msgpack_object *value)
{
    if (value->type == MSGPACK_OBJECT_STR)
        return (Text){value->via.str.ptr, value->via.str.size};
    if (value->type == MSGPACK_OBJECT_BIN)
        return (Text){value->via.bin.ptr, value->via.bin.size};
    return (Text){0};
}

static int check_argv(const msgpack_object_array *argv, Problem *problem)
{
    size_t total = 0;

    if (argv->size == 0)
        return problem_set(problem, ERR_BAD_REQUEST, "`argv` names no program");
    if (argv->size > LIMIT_ARGV)
        return problem_set(problem, ERR_TOO_LARGE, "`argv` has more than %u items", LIMIT_ARGV);
    for (uint32_t i = 0; i < argv->size; i++) {
        Text text = argument_of(&argv->ptr[i]);

        if (!text.data || memchr(text.data, '\0', text.size))
            return problem_set(problem, ERR_BAD_REQUEST, "`argv` holds texts or bytes, without NUL");
        total += text.size;
        if (total > LIMIT_ARGV_BYTES || text.size > LIMIT_COMMAND)
            return problem_set(
                problem, ERR_TOO_LARGE,
                "an item of `argv` has at most %u bytes, all together %u; put more into a file",
                LIMIT_COMMAND, LIMIT_ARGV_BYTES);
    }
    return 0;
}

static char *copy(Text text)
{
    return strndup(text.data ? text.data : "", text.size);
}

static int set_argv(Program *program, const msgpack_object_array *argv, Problem *problem)
{
    int r = check_argv(argv, problem);

    if (r < 0)
        return r;
    program->argv = calloc(argv->size + 1, sizeof(char *));
    for (uint32_t i = 0; program->argv && i < argv->size; i++)
        if (!(program->argv[i] = copy(argument_of(&argv->ptr[i]))))
            return out_of_memory(problem);
    return program->argv ? 0 : out_of_memory(problem);
}

static int set_line(Program *program, Text line, Problem *problem)
{
    if (memchr(line.data, '\0', line.size))
        return problem_set(problem, ERR_BAD_REQUEST, "`command` holds a NUL, which no command line can");
    program->argv = calloc(4, sizeof(char *));
    if (!program->argv || !(program->argv[0] = strdup(SHELL)) || !(program->argv[1] = strdup("-c")) ||
        !(program->argv[2] = copy(line)))
        return out_of_memory(problem);
    return 0;
}

/* ---- where ---- */

static bool is_below_session(Text path)
{
    size_t n = strlen(SESSION_PATH);

    return path.size >= n && memcmp(path.data, SESSION_PATH, n) == 0 &&
           (path.size == n || path.data[n] == '/');
}

static int set_directory(Program *program, Text said, const CommandLine *command_line, Problem *problem)
{
    const char *slash = "";

    if (said.data && memchr(said.data, '\0', said.size))
        return problem_set(problem, ERR_BAD_REQUEST, "`cwd` holds a NUL, which no path can");
    if (!said.data)
        program->directory = strdup(command_line->directory);
    else if (said.size > 0 && said.data[0] == '/' && !is_below_session(said))
        program->directory = copy(said);
    else {
        if (is_below_session(said))
            said = (Text){said.data + strlen(SESSION_PATH), said.size - strlen(SESSION_PATH)};
        else
            slash = "/";
        if (asprintf(&program->directory, "%s%s%.*s", command_line->directory, slash, (int)said.size,
                     said.data) < 0)
            program->directory = NULL;
    }
    return program->directory ? 0 : out_of_memory(problem);
}

/* ---- all of it ---- */

int program_init(Program *ret, const MsgProgram *said, const CommandLine *command_line,
                 const Environment *environment, Problem *problem)
{
    _cleanup_(program_deinit) Program program = {0};
    int r;

    if ((said->command.data != NULL) == (said->argv.array != NULL))
        return problem_set(problem, ERR_BAD_REQUEST, "give either `command` or `argv`");
    r = said->command.data ? set_line(&program, said->command, problem)
                           : set_argv(&program, said->argv.array, problem);
    if (r == 0)
        r = set_directory(&program, said->cwd, command_line, problem);
    if (r == 0)
        r = environment_extend(&program.environment, environment, said->env.map, problem);
    if (r < 0)
        return r == -ENOMEM ? out_of_memory(problem) : r;
    *ret = program;
    program = (Program){0};
    return 0;
}

/* A line for a shell is the last argument. */
static char **first_told(const Program *program)
{
    bool line = strcmp(program->argv[0], SHELL) == 0 && program->argv[1] &&
                strcmp(program->argv[1], "-c") == 0 && program->argv[2];

    return program->argv + (line ? 2 : 0);
}

void program_describe(const Program *program, char *ret, size_t size)
{
    Buf text _cleanup_(buf_deinit) = BUF_NULL;
    size_t n;

    for (char **argument = first_told(program); *argument && text.size < size; argument++)
        if ((text.size > 0 && buf_append(&text, " ", 1) < 0) ||
            utf8_append_replaced(&text, *argument, strnlen(*argument, size)) < 0)
            break;
    n = MIN(text.size, size - 1);
    while (n > 0 && n < text.size && (buf_head(&text)[n] & 0xc0) == 0x80)
        n--; /* no character is cut in two */
    if (n > 0)
        memcpy(ret, buf_head(&text), n);
    ret[n] = '\0';
}

void program_deinit(Program *program)
{
    for (char **argument = program->argv; argument && *argument; argument++)
        free(*argument);
    free(program->argv);
    free(program->directory);
    environment_deinit(&program->environment);
}
