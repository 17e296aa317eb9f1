/* Which addresses are anybody's, and which lead to the host, its neighbours or what only they may reach. Pure. */
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "proto/base/base.h"

typedef union Address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
} Address;

/* An address as a socket has it; an IPv4 one that is written as IPv6 becomes that. False: of neither family. */
bool address_from(Address *ret, const struct sockaddr *from);
/* Of an IP address as text, brackets around IPv6 allowed; its port is 0. False: it is none. */
bool address_parse(Address *ret, const char *text);
/* Regardless of ports. */
bool address_equal(const Address *one, const Address *other);
bool address_is_localhost(const Address *address); /* 127.0.0.1 or ::1 */
/* On the internet, and not one of those that stand for another, or with which a cloud talks to its machines. */
bool address_is_public(const Address *address);

#define ADDRESS_TEXT_SIZE INET6_ADDRSTRLEN
const char *address_text(char ret[static ADDRESS_TEXT_SIZE], const Address *address);
socklen_t address_size(const Address *address);
void address_set_port(Address *address, uint16_t port);
