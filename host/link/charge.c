#include "host/link/charge.h"

#include <errno.h>

#include "host/link/internal.h"
#include "proto/base/log.h"

static UserCharge *find(Listener *listener, uid_t user)
{
    UserCharge *charge = NULL;

    HASH_FIND(by_user, listener->charges, &user, sizeof(user), charge);
    if (charge)
        return charge;
    charge = calloc(1, sizeof(*charge));
    if (!charge)
        return NULL;
    charge->listener = listener;
    charge->user = user;
    HASH_ADD(by_user, listener->charges, user, sizeof(user), charge);
    if (charge->by_user.tbl)
        return charge;
    free(charge);
    return NULL;
}

static void free_unused(UserCharge *charge)
{
    if (charge->connections > 0 || charge->requests > 0)
        return;
    if (charge->listener)
        HASH_DELETE(by_user, charge->listener->charges, charge);
    free(charge);
}

static bool is_over(size_t amount, size_t limit)
{
    return limit > 0 && amount > limit;
}

int charge_connection(UserCharge **ret, Listener *listener, uid_t user)
{
    UserCharge *charge = find(listener, user);

    if (!charge)
        return -ENOMEM;
    if (is_over(charge->connections + 1, listener->limits.user_peers))
        return -EDQUOT;
    charge->connections++;
    *ret = charge;
    return 0;
}

void charge_connection_over(UserCharge *charge)
{
    charge->connections--;
    free_unused(charge);
}

bool charge_bytes(UserCharge *charge, size_t before, size_t now)
{
    charge->bytes = charge->bytes - before + now;
    if (charge->bytes == 0)
        charge->complained = false;
    if (now <= before || !is_over(charge->bytes, charge->listener->limits.user_bytes))
        return true;
    if (charge->complained)
        return false;
    charge->complained = true;
    log_warn("user holds too much", "uid=%d bytes=%zu connections=%zu requests=%zu", (int)charge->user,
             charge->bytes, charge->connections, charge->requests);
    return false;
}

int charge_request(UserCharge *charge, size_t bytes)
{
    const ListenerLimits *limits = &charge->listener->limits;

    if (is_over(charge->requests + 1, limits->user_requests) ||
        is_over(charge->bytes + bytes, limits->user_bytes))
        return -EDQUOT;
    charge->requests++;
    charge->bytes += bytes;
    return 0;
}

void charge_request_over(UserCharge *charge, size_t bytes)
{
    charge->requests--;
    charge->bytes -= bytes;
    free_unused(charge);
}

void charges_leave(Listener *listener)
{
    UserCharge *charge, *next;

    HASH_ITER (by_user, listener->charges, charge, next) {
        HASH_DELETE(by_user, listener->charges, charge);
        charge->listener = NULL;
    }
}
