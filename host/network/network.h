/* Network: what a session may reach: rules, each a host and a port, and bindings, names behind which the host
 * adds headers. As clients say it, as it is checked, and as it is asked. Pure. */
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "proto/base/base.h"
#include "proto/schema.h"
#include "proto/wire.h"

/* Addresses are of classes: those that are anybody's, and those that lead to the host, its neighbours or what
 * only they may reach. */
typedef union IpAddress {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
} IpAddress;

/* An address as a socket has it; an IPv4 one that is written as IPv6 becomes that. False: of neither family.
 */
bool ip_from(IpAddress *ret, const struct sockaddr *from);

/* Parses an IP address, brackets around IPv6 allowed; its port is 0. False: the text is none. */
bool ip_parse(IpAddress *ret, const char *text);

/* Regardless of ports. */
bool ip_equal(const IpAddress *one, const IpAddress *other);

/* On the internet, and not one of those that stand for another, or with which a cloud talks to its machines.
 */
bool ip_is_public(const IpAddress *address);

#define IP_TEXT_SIZE INET6_ADDRSTRLEN
const char *ip_text(char ret[static IP_TEXT_SIZE], const IpAddress *address);
socklen_t ip_size(const IpAddress *address);
void ip_set_port(IpAddress *address, uint16_t port);

#define HOST_SIZE 254 /* a name of the DNS with its '\0', or an address without brackets */

/* Lower-case, one dot at its end taken away, an address as it is usually written. False: it is no host. */
bool host_normalise(char ret[static HOST_SIZE], const char *host, size_t size);

/* The size of the host of "host:port", where a port need not be: *ret_port stays as it is then. False:
 * neither. */
bool network_split(const char *text, size_t size, size_t *ret_host, uint16_t *ret_port);

typedef struct NetworkRule {
    char host[HOST_SIZE]; /* of one that is `below`: its domain, "" for any */
    bool below;           /* "*.DOMAIN": every name below it, and not the domain itself */
    bool is_address;
    IpAddress address;
    uint16_t port;
} NetworkRule;

typedef struct NetworkHeader {
    char *name, *value;
} NetworkHeader;

typedef struct NetworkBinding {
    char name[64];  /* NAME.limpet */
    bool is_secure; /* https */
    bool relays;    /* egress: the only one of its session, and all that this asks for goes there */
    char host[HOST_SIZE];
    uint16_t port;
    char *path; /* begins with "/", does not end with one; or "" */
    NetworkHeader *headers;
    size_t n;
} NetworkBinding;

typedef struct Network {
    bool anywhere; /* names in rules may have any address but this machine's: their author is trusted */
    NetworkRule *rules;
    size_t n_rules;
    NetworkBinding *bindings;
    size_t n_bindings;
} Network;

#define NETWORK_DOMAIN ".limpet"

/* From `allow` and `bindings` as the options have them, of which nothing is believed. 0, or -EPROTO with the
 * problem set, which repeats nothing secret. */
int network_read(Network *ret, const Value *allow, const Value *bindings, Problem *problem);
void network_deinit(Network *network);
static inline bool network_is_empty(const Network *network)
{
    return network->n_rules == 0 && network->n_bindings == 0;
}

/* Returns whether a rule names that host, which is normalised, and port. */
bool network_allows(const Network *network, const char *host, uint16_t port);

/* Returns whether a connection may go to an address that was found for a host it may reach: a public one, or
 * one that a rule names as it is; `localhost` names 127.0.0.1 and ::1. `own`: it is one of this machine. */
bool network_allows_address(const Network *network, const IpAddress *address, uint16_t port, bool own);

/* The same of the host of a binding. */
bool network_binding_allows_address(const NetworkBinding *binding, const IpAddress *address, bool own);

/* The binding that relays, or NULL. The value of its one header is what the other side knows it by. */
const NetworkBinding *network_relay(const Network *network);

/* The binding of NAME.limpet, or NULL. */
const NetworkBinding *network_binding(const Network *network, const char *host);

/* Returns whether the host is the name of a binding, or could be. */
bool network_is_binding_name(const char *host);

/* Writes a map of bindings (msgpack_object_map) without their headers. */
void network_write_public(Writer *w, const void *source);
