#include "host/network/strangers.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <uthash.h>

struct StrangersAddress {
    struct in6_addr address; /* of IPv4 as IPv6 has it */
    List strangers;          /* the oldest first */
    size_t n;
    UT_hash_handle by_address;
};

/* All zeros where the peer has gone, or has no address of its own. */
static struct in6_addr address_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } peer = {0};
    socklen_t size = sizeof(peer);
    struct in6_addr address = {0};

    if (getpeername(fd, &peer.any, &size) < 0)
        return address;
    if (peer.any.sa_family == AF_INET6) {
        address = peer.six.sin6_addr;
    } else if (peer.any.sa_family == AF_INET) {
        memset(address.s6_addr + 10, 0xff, 2);
        memcpy(address.s6_addr + 12, &peer.four.sin_addr, 4);
    }
    return address;
}

static StrangersAddress *find_address(Strangers *strangers, int fd)
{
    const struct in6_addr key = address_of(fd);
    StrangersAddress *address = NULL;

    HASH_FIND(by_address, strangers->addresses, &key, sizeof(key), address);
    if (address)
        return address;
    address = calloc(1, sizeof(*address));
    if (!address)
        return NULL;
    address->address = key;
    list_init(&address->strangers);
    HASH_ADD(by_address, strangers->addresses, address, sizeof(key), address);
    if (address->by_address.tbl)
        return address;
    free(address);
    return NULL;
}

int strangers_add(Strangers *strangers, Stranger *stranger, int fd)
{
    StrangersAddress *address = find_address(strangers, fd);

    stranger->address = address;
    if (!address)
        return -ENOMEM;
    list_append(&address->strangers, &stranger->link);
    address->n++;
    strangers->n++;
    return 0;
}

void strangers_remove(Strangers *strangers, Stranger *stranger)
{
    StrangersAddress *address = take(stranger->address);

    if (!address)
        return;
    list_remove(&stranger->link);
    strangers->n--;
    if (--address->n > 0)
        return;
    HASH_DELETE(by_address, strangers->addresses, address);
    free(address);
}

Stranger *strangers_excess(const Strangers *strangers, size_t most)
{
    StrangersAddress *address, *next, *greatest = NULL;

    if (strangers->n <= most)
        return NULL;
    HASH_ITER (by_address, strangers->addresses, address, next)
        if (!greatest || address->n > greatest->n)
            greatest = address;
    return greatest ? list_entry(list_first(&greatest->strangers), Stranger, link) : NULL;
}
