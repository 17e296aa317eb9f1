#include "host/network/ip.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

typedef struct Range4 {
    uint32_t first;
    unsigned bits;
} Range4;

#define IPV4(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

/* The registry of special addresses (RFC 6890 and what followed), and what is public and yet a cloud's own.
 */
static const Range4 special4[] = {
    {IPV4(0, 0, 0, 0), 8},      {IPV4(10, 0, 0, 0), 8},     {IPV4(100, 64, 0, 0), 10},
    {IPV4(127, 0, 0, 0), 8},    {IPV4(169, 254, 0, 0), 16}, {IPV4(172, 16, 0, 0), 12},
    {IPV4(192, 0, 0, 0), 24},   {IPV4(192, 0, 2, 0), 24},   {IPV4(192, 88, 99, 0), 24},
    {IPV4(192, 168, 0, 0), 16}, {IPV4(198, 18, 0, 0), 15},  {IPV4(198, 51, 100, 0), 24},
    {IPV4(203, 0, 113, 0), 24}, {IPV4(224, 0, 0, 0), 3},    {IPV4(168, 63, 129, 16), 32},
};

typedef struct Range6 {
    uint8_t first[6];
    unsigned bits; /* at most 48 */
} Range6;

/* Ranges of 2000::/3, outside of which nothing is public. */
static const Range6 special6[] = {
    {{0x20, 0x01, 0x00, 0x00}, 23}, /* protocols: Teredo, ORCHID */
    {{0x20, 0x01, 0x0d, 0xb8}, 32}, /* documents */
    {{0x20, 0x02}, 16},             /* 6to4: an IPv4 address */
    {{0x3f, 0xff}, 20},             /* documents */
    {{0x3f, 0xfe}, 16},             /* 6bone */
};

bool ip_from(IpAddress *ret, const struct sockaddr *from)
{
    *ret = (IpAddress){.any.sa_family = from->sa_family};
    if (from->sa_family == AF_INET) {
        memcpy(&ret->four, from, sizeof(ret->four));
        return true;
    }
    if (from->sa_family != AF_INET6)
        return false;
    memcpy(&ret->six, from, sizeof(ret->six));
    if (IN6_IS_ADDR_V4MAPPED(&ret->six.sin6_addr)) {
        struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = ret->six.sin6_port};

        memcpy(&four.sin_addr, ret->six.sin6_addr.s6_addr + 12, sizeof(four.sin_addr));
        ret->four = four;
    }
    return true;
}

bool ip_parse(IpAddress *ret, const char *text)
{
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    char bare[INET6_ADDRSTRLEN];
    size_t n = strlen(text);

    if (inet_pton(AF_INET, text, &four.sin_addr) == 1)
        return ip_from(ret, (const struct sockaddr *)&four);
    if (n > 2 && n < sizeof(bare) && *text == '[' && text[n - 1] == ']') {
        snprintf(bare, sizeof(bare), "%.*s", (int)n - 2, text + 1);
        text = bare;
    }
    return inet_pton(AF_INET6, text, &six.sin6_addr) == 1 && ip_from(ret, (const struct sockaddr *)&six);
}

bool ip_equal(const IpAddress *one, const IpAddress *other)
{
    if (one->any.sa_family != other->any.sa_family)
        return false;
    if (one->any.sa_family == AF_INET)
        return one->four.sin_addr.s_addr == other->four.sin_addr.s_addr;
    return IN6_ARE_ADDR_EQUAL(&one->six.sin6_addr, &other->six.sin6_addr) &&
           one->six.sin6_scope_id == other->six.sin6_scope_id;
}

bool ip_is_localhost(const IpAddress *address)
{
    if (address->any.sa_family == AF_INET)
        return address->four.sin_addr.s_addr == htonl(INADDR_LOOPBACK);
    return IN6_IS_ADDR_LOOPBACK(&address->six.sin6_addr);
}

static bool is_public4(uint32_t address)
{
    for (size_t i = 0; i < ARRAY_SIZE(special4); i++)
        if ((address ^ special4[i].first) >> (32 - special4[i].bits) == 0)
            return false;
    return true;
}

static uint64_t first_bits(const uint8_t bytes[static 6], unsigned bits)
{
    uint64_t number = 0;

    for (size_t i = 0; i < 6; i++)
        number = number << 8 | bytes[i];
    return number >> (48 - bits);
}

static bool is_public6(const uint8_t bytes[static 16])
{
    if (bytes[0] >> 5 != 1)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(special6); i++)
        if (first_bits(bytes, special6[i].bits) == first_bits(special6[i].first, special6[i].bits))
            return false;
    return true;
}

bool ip_is_public(const IpAddress *address)
{
    if (address->any.sa_family == AF_INET)
        return is_public4(ntohl(address->four.sin_addr.s_addr));
    return address->any.sa_family == AF_INET6 && is_public6(address->six.sin6_addr.s6_addr);
}

const char *ip_text(char ret[static IP_TEXT_SIZE], const IpAddress *address)
{
    const void *bytes = address->any.sa_family == AF_INET ? (const void *)&address->four.sin_addr
                                                          : (const void *)&address->six.sin6_addr;

    if (!inet_ntop(address->any.sa_family, bytes, ret, IP_TEXT_SIZE))
        *ret = '\0';
    return ret;
}

socklen_t ip_size(const IpAddress *address)
{
    return address->any.sa_family == AF_INET ? sizeof(address->four) : sizeof(address->six);
}

void ip_set_port(IpAddress *address, uint16_t port)
{
    if (address->any.sa_family == AF_INET)
        address->four.sin_port = htons(port);
    else
        address->six.sin6_port = htons(port);
}
