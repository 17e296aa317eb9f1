/* limpet_install(). */
#include <math.h>

#include "clients/c/client.h"

typedef struct InstallCall {
    ClientCall call;
    const LimpetInstall *install;
} InstallCall;

static int on_event(ClientCall *call, const Message *event)
{
    const LimpetInstall *install = container_of(call, InstallCall, call)->install;
    Problem *problem = &call->client->problem;
    MsgOutput output;
    int r = event->kind == MSG_OUTPUT ? reply_decode(&output, MsgOutput, &event->body, problem) : 0;

    if (r == 0 && event->kind == MSG_OUTPUT && install->on_output)
        install->on_output(install->context, (int)output.stream, output.data.data, output.data.size);
    return r;
}

static int read_installed(void *value, const msgpack_object_map *map, Arena *arena, Problem *problem)
{
    LimpetInstalled *installed = value;
    LimpetPackage *packages;
    MsgInstalled body;
    int r = reply_decode(&body, MsgInstalled, map, problem);

    if (r < 0)
        return r;
    installed->n_packages = value_count(&body.packages);
    installed->packages = packages = arena_new(arena, installed->n_packages, sizeof(*packages));
    for (uint32_t i = 0; packages && i < installed->n_packages; i++) {
        MsgPackage row;

        value_row(&row, MsgPackage, &body.packages, i);
        packages[i] = (LimpetPackage){arena_text(arena, row.name), arena_text(arena, row.version)};
    }
    installed->lock = arena_text(arena, body.lock);
    installed->cached = body.cached;
    installed->duration = body.duration;
    return 0;
}

int limpet_install(LimpetClient *client, const LimpetInstall *install, LimpetInstalled **ret)
{
    const MsgInstall said = {
        .session = text_of(install->session),
        .packages = text_of(install->packages),
        .timeout = install->timeout == 0 ? NAN : install->timeout,
        .stream = install->on_output,
    };
    InstallCall install_call = {.call = {.repeatable = true, .on_event = on_event}, .install = install};

    client_begin(client, &install_call.call, MSG_INSTALL, MsgInstall, &said);
    return answer_call(client, &install_call.call, sizeof(LimpetInstalled), read_installed, ret);
}
