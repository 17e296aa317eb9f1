#include "host/session/checkpoint_files.h"
#include "host/session/internal.h"

static void on_accepted(Order *order)
{
    order_reply(order, NULL);
}

static void start(Order *order)
{
    checkpoint_files_accept(order, on_accepted);
}

static const OrderOps accept_ops = {.start = start};

void session_accept_files(Session *trunk)
{
    Order *order;

    if (!session_files_dirty(&trunk->sandbox->files, FILES_SESSION))
        return;
    order = order_new(sizeof(*order), &accept_ops, trunk, NULL);
    if (order)
        order_queue(order);
}
