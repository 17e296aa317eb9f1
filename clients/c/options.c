#include "clients/c/options.h"

#include <string.h>

#include "clients/c/client.h"

int options_check(const LimpetOptions *options, Problem *problem)
{
    for (size_t i = 0; options && options->env && options->env[i]; i++)
        if (!strchr(options->env[i], '=') || options->env[i][0] == '=')
            return problem_set(problem, ERR_BAD_REQUEST, "env: '%s' is not NAME=value", options->env[i]);
    return 0;
}

static void write_number(Writer *w, const char *key, double value)
{
    write_key(w, key);
    if (value == 0)
        write_nil(w);
    else
        write_double(w, value);
}

static void write_ttl(Writer *w, double ttl)
{
    write_key(w, "ttl");
    if (ttl == 0)
        write_nil(w);
    else
        write_double(w, ttl == LIMPET_FOREVER ? 0 : ttl);
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

static void write_count(Writer *w, const char *key, uint64_t value)
{
    write_key(w, key);
    if (value)
        write_uint(w, value);
    else
        write_nil(w);
}

static void write_env(Writer *w, const char *const *env)
{
    size_t pairs = 0;

    write_key(w, "env");
    if (!env) {
        write_nil(w);
        return;
    }
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

void options_write(Writer *w, const LimpetOptions *options)
{
    static const LimpetOptions none;

    if (!options)
        options = &none;
    write_number(w, "timeout", options->timeout);
    write_pair(w, "memory", options->memory);
    write_number(w, "cpus", options->cpus);
    write_count(w, "pids", options->pids);
    write_pair(w, "disk", options->disk);
    write_count(w, "files", options->files);
    write_pair(w, "data", options->data);
    write_env(w, options->env);
    write_ttl(w, options->ttl);
    write_pair(w, "network", options->network);
    write_pair(w, "image", options->image);
    write_pair(w, "checkpoint", options->checkpoint);
}
