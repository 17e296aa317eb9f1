#include "clients/c/options.h"

#include <math.h>
#include <string.h>

#include "clients/c/client.h"
#include "clients/c/network.h"

int env_check(const char *const *env, Problem *problem)
{
    for (size_t i = 0; env && env[i]; i++)
        if (!strchr(env[i], '=') || env[i][0] == '=')
            return problem_set(problem, ERR_BAD_REQUEST, "env: '%s' does not have the form NAME=value",
                               env[i]);
    return 0;
}

/* Before a directory of the controller's machine. */
#define HOST "host:"

static bool is_hosts(const char *data)
{
    return strncmp(data, HOST, strlen(HOST)) == 0;
}

static int data_check(const LimpetClient *client, const char *data, Problem *problem)
{
    if (!data || is_hosts(data) || !client->address.remote)
        return 0;
    return problem_set(
        problem, ERR_BAD_REQUEST,
        "data: '%s' is a directory of this machine, and the controller is on another one; put the "
        "files into the session, or name a directory of that machine as 'host:/PATH'",
        data);
}

int options_check(const LimpetClient *client, const LimpetOptions *options, Problem *problem)
{
    int r = env_check(options ? options->env : NULL, problem);

    if (r == 0 && options)
        r = data_check(client, options->data, problem);
    return r < 0 || !options ? r : bindings_check(options->bindings, problem);
}

static Text say_directory(const char *given)
{
    return text_of(given && is_hosts(given) ? given + strlen(HOST) : given);
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

static double say_seconds(double seconds)
{
    return seconds == 0 ? NAN : seconds == LIMPET_FOREVER ? 0 : seconds;
}

Value env_say(const char *const *env)
{
    return (Value){.write = env ? write_env : NULL, .source = env};
}

#define SAY_LIST(given)      texts_say(given)
#define SAY_BINDINGS(given)  bindings_say(given)
#define SAY_SECONDS(given)   say_seconds(given)
#define SAY_NUMBER(given)    ((given) == 0 ? NAN : (given))
#define SAY_COUNT(given)     ((given) == 0 ? NO_UINT : (given))
#define SAY_SIZE(given)      ((Size){.bytes = NO_UINT, .text = text_of(given)})
#define SAY_CHOICE(given)    text_of(given)
#define SAY_TEXT(given)      text_of(given)
#define SAY_DIRECTORY(given) say_directory(given)
#define SAY_PAIRS(given)     env_say(given)

MsgOptions options_say(const LimpetOptions *options)
{
    static const LimpetOptions none;

    if (!options)
        options = &none;
    return (MsgOptions){
#define SESSION_OPTION(name, kind, ...) .name = SAY_##kind(options->name),
#include "proto/session_options.def"
    };
}
