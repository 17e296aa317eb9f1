#include "clients/c/program.h"

#include <string.h>

#include "clients/c/options.h"

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

int program_say(MsgProgram *ret, const LimpetProgram *program, Problem *problem)
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
