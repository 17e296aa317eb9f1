#include "host/privilege/aide.h"

#include <errno.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"

#define PAUSE_LEAST (20 * NSEC_PER_MSEC)
#define PAUSE_MOST  (5 * NSEC_PER_SEC)

static void begin(Aide *aide);

static void on_retry(LoopTimer *timer)
{
    begin(container_of(timer, Aide, retry));
}

static void begin_later(Aide *aide)
{
    if (clock_now() - aide->started > PAUSE_MOST)
        aide->pause = PAUSE_LEAST;
    else
        aide->pause = MIN(2 * aide->pause, PAUSE_MOST);
    loop_timer_set(aide->loop, &aide->retry, clock_now() + aide->pause, on_retry);
}

static void on_lost(Rpc *rpc, int error)
{
    Aide *aide = container_of(rpc, Aide, rpc);

    log_error("process ended, starting another", "name=%s reason=%s", aide->ops->name, strerror(-error));
    rpc_close(rpc);
    begin_later(aide);
}

static int on_message(Rpc *rpc, const Message *message, Descriptors *descriptors)
{
    Aide *aide = container_of(rpc, Aide, rpc);

    return aide->ops->message ? aide->ops->message(aide, message, descriptors) : -EBADMSG;
}

static const RpcEvents events = {on_message, on_lost};

static void begin(Aide *aide)
{
    int socket, r = aide->start(aide->userdata, &socket);

    aide->started = clock_now();
    if (r == 0)
        r = rpc_open(&aide->rpc, aide->loop, socket, &events);
    if (r == 0) {
        aide->ops->begun(aide);
        return;
    }
    log_error("process not started", "name=%s error=%s", aide->ops->name, strerror(-r));
    begin_later(aide);
}

void aide_init(Aide *aide, const AideOps *ops, Loop *loop, AideStarter *start, void *userdata)
{
    *aide = (Aide){.ops = ops, .loop = loop, .start = start, .userdata = userdata, .pause = PAUSE_LEAST};
}

void aide_deinit(Aide *aide)
{
    loop_timer_cancel(&aide->retry);
    rpc_close(&aide->rpc);
}

void aide_want(Aide *aide)
{
    if (!aide_is_there(aide) && !loop_timer_is_set(&aide->retry))
        begin(aide);
}
