#include "host/network/network.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/network/internal.h"

static bool is_name_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* Labels with dots between. */
static bool is_name(const char *host)
{
    size_t label = 0;

    for (; *host; host++) {
        if (*host == '.' && label == 0)
            return false;
        if (*host != '.' && !is_name_character(*host))
            return false;
        label = *host == '.' ? 0 : label + 1;
        if (label > 63)
            return false;
    }
    return label > 0;
}

bool host_normalise(char ret[static HOST_SIZE], const char *host, size_t size)
{
    IpAddress address;

    if (size > 0 && host[size - 1] == '.')
        size--;
    if (size == 0 || size >= HOST_SIZE || memchr(host, '\0', size))
        return false;
    for (size_t i = 0; i < size; i++)
        ret[i] = (char)tolower((unsigned char)host[i]);
    ret[size] = '\0';
    if (!ip_parse(&address, ret))
        return is_name(ret);
    ip_text(ret, &address);
    return true;
}

static bool read_port(uint16_t *ret, const char *digits, size_t size)
{
    unsigned number = 0;

    for (size_t i = 0; i < size; i++) {
        if (digits[i] < '0' || digits[i] > '9' || size > 5)
            return false;
        number = number * 10 + (unsigned)(digits[i] - '0');
    }
    *ret = (uint16_t)number;
    return number > 0 && number <= UINT16_MAX;
}

bool network_split(const char *text, size_t size, size_t *ret_host, uint16_t *ret_port)
{
    const char *bracket = size > 0 && *text == '[' ? memchr(text, ']', size) : NULL;
    const char *from = bracket ? bracket + 1 : text, *end = text + size;
    const char *colon = size > 0 ? memchr(from, ':', (size_t)(end - from)) : NULL;

    if (size == 0 || (*text == '[' && (!bracket || (from < end && *from != ':'))))
        return false;
    *ret_host = colon ? (size_t)(colon - text) : size;
    return !colon || read_port(ret_port, colon + 1, size - *ret_host - 1);
}

static int refuse(Text pattern, Problem *problem)
{
    return problem_set(
        problem, ERR_BAD_REQUEST,
        "network: '%.*s' is no destination; write host:port, *.domain:port or an address and port, and "
        "IPv6 addresses in brackets",
        (int)MIN(pattern.size, (size_t)HOST_SIZE), pattern.data);
}

int network_rule_parse(NetworkRule *ret, Text pattern, Problem *problem)
{
    const char *text = pattern.data;
    size_t size;

    *ret = (NetworkRule){.port = NETWORK_PORT};
    if (!network_split(text, pattern.size, &size, &ret->port))
        return refuse(pattern, problem);
    if (size == 1 && *text == '*') {
        ret->below = true;
        return 0;
    }
    ret->below = size > 2 && text[0] == '*' && text[1] == '.';
    if (ret->below) {
        text += 2;
        size -= 2;
    }
    if (!host_normalise(ret->host, text, size))
        return refuse(pattern, problem);
    ret->is_address = ip_parse(&ret->address, ret->host);
    return ret->is_address && ret->below ? refuse(pattern, problem) : 0;
}

/* ---- all of it ---- */

static int read_rules(Network *network, const Value *allow, Problem *problem)
{
    uint32_t n = value_count(allow);
    int r = 0;

    if (n > LIMIT_RULES)
        return problem_set(problem, ERR_TOO_LARGE, "network: at most %u destinations may be allowed",
                           LIMIT_RULES);
    if (n == 0)
        return 0;
    network->rules = calloc(n, sizeof(*network->rules));
    if (!network->rules)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    for (uint32_t i = 0; r == 0 && i < n; i++)
        r = network_rule_parse(&network->rules[network->n_rules++], value_text(allow, i), problem);
    return r;
}

int network_read(Network *ret, const Value *allow, const Value *bindings, Problem *problem)
{
    Network network _cleanup_(network_deinit) = {0};
    int r = read_rules(&network, allow, problem);

    if (r == 0)
        r = network_read_bindings(&network, bindings->map, problem);
    if (r < 0)
        return r;
    *ret = network;
    network = (Network){0};
    return 0;
}

void network_deinit(Network *network)
{
    free(network->rules);
    network_free_bindings(network);
    *network = (Network){0};
}

/* ---- asking ---- */

static bool is_below(const char *host, const char *domain)
{
    size_t n = strlen(host), of = strlen(domain);

    return of == 0 || (n > of + 1 && host[n - of - 1] == '.' && strcmp(host + n - of, domain) == 0);
}

/* An address is no name, and no pattern of names is about it. */
static bool matches(const NetworkRule *rule, const char *host, const IpAddress *address)
{
    if (address || rule->is_address)
        return address && rule->is_address && ip_equal(address, &rule->address);
    return rule->below ? is_below(host, rule->host) : strcmp(host, rule->host) == 0;
}

bool network_allows(const Network *network, const char *host, uint16_t port)
{
    IpAddress address;
    bool is_address = ip_parse(&address, host);

    for (size_t i = 0; i < network->n_rules; i++)
        if (network->rules[i].port == port && matches(&network->rules[i], host, is_address ? &address : NULL))
            return true;
    return false;
}

static bool names_address(const char *host, const IpAddress *address)
{
    IpAddress named;

    if (strcmp(host, "localhost") == 0)
        return ip_is_localhost(address);
    return ip_parse(&named, host) && ip_equal(&named, address);
}

bool network_allows_address(const Network *network, const IpAddress *address, uint16_t port, bool own)
{
    if (!own && (network->anywhere ? !ip_is_localhost(address) : ip_is_public(address)))
        return true;
    for (size_t i = 0; i < network->n_rules; i++) {
        const NetworkRule *rule = &network->rules[i];

        if (rule->port == port && !rule->below && names_address(rule->host, address))
            return true;
    }
    return false;
}

bool network_binding_allows_address(const NetworkBinding *binding, const IpAddress *address, bool own)
{
    return (!own && ip_is_public(address)) || names_address(binding->host, address);
}

bool network_is_binding_name(const char *host)
{
    size_t n = strlen(host), of = strlen(NETWORK_DOMAIN);

    return n > of && strcmp(host + n - of, NETWORK_DOMAIN) == 0;
}

const NetworkBinding *network_binding(const Network *network, const char *host)
{
    if (!network_is_binding_name(host))
        return NULL;
    for (size_t i = 0; i < network->n_bindings; i++) {
        const char *name = network->bindings[i].name;
        size_t n = strlen(name);

        if (strncmp(host, name, n) == 0 && strcmp(host + n, NETWORK_DOMAIN) == 0)
            return &network->bindings[i];
    }
    return NULL;
}
