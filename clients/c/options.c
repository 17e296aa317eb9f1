#include "clients/c/options.h"

#include <math.h>
#include <string.h>

#include "clients/c/client.h"

int options_check(const LimpetOptions *options, Problem *problem)
{
    for (size_t i = 0; options && options->env && options->env[i]; i++)
        if (!strchr(options->env[i], '=') || options->env[i][0] == '=')
            return problem_set(problem, ERR_BAD_REQUEST, "env: '%s' is not NAME=value", options->env[i]);
    return 0;
}

/* The last of two settings of a name holds, as in env(1). */
static bool set_again(const char *const *env, size_t place)
{
    size_t length = strcspn(env[place], "=") + 1;

    for (size_t i = place + 1; env[i]; i++)
        if (strncmp(env[i], env[place], length) == 0)
            return true;
    return false;
}

static void write_env(Writer *w, const void *source)
{
    const char *const *env = source;
    size_t pairs = 0;

    for (size_t i = 0; env[i]; i++)
        pairs += !set_again(env, i);
    write_map(w, pairs);
    for (size_t i = 0; env[i]; i++) {
        size_t name = strcspn(env[i], "=");

        if (set_again(env, i))
            continue;
        write_text_n(w, env[i], name);
        write_text(w, env[i] + name + 1);
    }
}

MsgOptions options_say(const LimpetOptions *options)
{
    static const LimpetOptions none;

    if (!options)
        options = &none;
    return (MsgOptions){
        .timeout = options->timeout == 0 ? NAN : options->timeout,
        .memory = {.bytes = NO_UINT, .text = text_of(options->memory)},
        .cpus = options->cpus == 0 ? NAN : options->cpus,
        .pids = options->pids == 0 ? NO_UINT : options->pids,
        .disk = {.bytes = NO_UINT, .text = text_of(options->disk)},
        .files = options->files == 0 ? NO_UINT : options->files,
        .data = text_of(options->data),
        .env = {.write = options->env ? write_env : NULL, .source = options->env},
        .ttl = options->ttl == 0                ? NAN
               : options->ttl == LIMPET_FOREVER ? 0
                                                : options->ttl,
        .network = text_of(options->network),
        .image = text_of(options->image),
        .checkpoint = text_of(options->checkpoint),
    };
}
