/* Classes of IP addresses: those that are anybody's, and those that lead to the host, its neighbours or what
 * only they may reach. Pure. */
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "proto/base/base.h"

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
bool ip_is_localhost(const IpAddress *address); /* 127.0.0.1 or ::1 */
/* On the internet, and not one of those that stand for another, or with which a cloud talks to its machines.
 */
bool ip_is_public(const IpAddress *address);

#define IP_TEXT_SIZE INET6_ADDRSTRLEN
const char *ip_text(char ret[static IP_TEXT_SIZE], const IpAddress *address);
socklen_t ip_size(const IpAddress *address);
void ip_set_port(IpAddress *address, uint16_t port);
