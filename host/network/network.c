#include "host/network/network.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NETWORK_PORT 443 /* where a rule names none */

/* ---- addresses ---- */

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

static bool ip_is_localhost(const IpAddress *address)
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

/* ---- bindings: their headers hold secrets, which no problem repeats ---- */

static void network_free_bindings(Network *network)
{
    for (size_t i = 0; i < network->n_bindings; i++) {
        NetworkBinding *binding = &network->bindings[i];

        for (size_t k = 0; k < binding->n; k++) {
            if (binding->headers[k].value)
                explicit_bzero(binding->headers[k].value, strlen(binding->headers[k].value));
            free(binding->headers[k].name);
            free(binding->headers[k].value);
        }
        free(binding->headers);
        free(binding->path);
    }
    free(network->bindings);
}

static int refuse_binding(const NetworkBinding *binding, Problem *problem, const char *what)
{
    return problem_set(problem, ERR_BAD_REQUEST, "bindings: %s: %s", binding->name, what);
}

static int read_name(NetworkBinding *ret, const msgpack_object *name, Problem *problem)
{
    const char *text = name->via.str.ptr;
    uint32_t n = name->via.str.size;
    bool good = n > 0 && n < sizeof(ret->name) && text[0] != '-' && text[n - 1] != '-';

    for (uint32_t i = 0; good && i < n; i++)
        good = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '0' && text[i] <= '9') || text[i] == '-';
    if (!good)
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "bindings: a name has 1 to %zu characters of a-z 0-9 -, and neither begins nor ends with -",
            sizeof(ret->name) - 1);
    memcpy(ret->name, text, n);
    ret->name[n] = '\0';
    return 0;
}

static bool is_path(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] >= 0x7f || strchr("?#\\", text[i]))
            return false;
    return true;
}

static bool has_scheme(Text *url, const char *scheme)
{
    size_t n = strlen(scheme);

    if (url->size < n || strncasecmp(url->data, scheme, n) != 0)
        return false;
    url->data += n;
    url->size -= n;
    return true;
}

static int read_url(NetworkBinding *ret, Text url, Problem *problem)
{
    static const char form[] =
        "`url` is http:// or https://, a host, perhaps a port and a path, and nothing else; "
        "what is secret belongs in `headers`";
    size_t authority, host;
    const char *slash;

    ret->is_secure = has_scheme(&url, "https://");
    ret->relays = !ret->is_secure && has_scheme(&url, "egress://");
    if (!ret->is_secure && !ret->relays && !has_scheme(&url, "http://"))
        return refuse_binding(ret, problem, form);
    ret->port = ret->is_secure ? 443 : ret->relays ? 0 : 80;
    slash = memchr(url.data, '/', url.size);
    authority = slash ? (size_t)(slash - url.data) : url.size;
    if (!network_split(url.data, authority, &host, &ret->port) ||
        !host_normalise(ret->host, url.data, host) || !is_path(url.data + authority, url.size - authority))
        return refuse_binding(ret, problem, form);
    if (ret->relays && (ret->port == 0 || url.size > authority))
        return refuse_binding(ret, problem, "`url` is egress://, a host and a port, and nothing else");
    while (url.size > authority && url.data[url.size - 1] == '/')
        url.size--;
    ret->path = text_dup((Text){url.data + authority, url.size - authority});
    return ret->path ? 0 : refuse_binding(ret, problem, "out of memory");
}

static bool is_token(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] >= 0x7f || strchr("()<>@,;:\\\"/[]?={}", text[i]))
            return false;
    return n > 0;
}

static bool is_value(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)text[i] < ' ' && text[i] != '\t') || text[i] == 0x7f)
            return false;
    return true;
}

/* Returns whether a header field says how a message is passed on: those are ours. */
static bool is_ours(const char *name)
{
    static const char *const ours[] = {"connection", "content-length", "expect",
                                       "host",       "keep-alive",     "te",
                                       "trailer",    "upgrade",        "transfer-encoding"};

    for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
        if (strcasecmp(name, ours[i]) == 0)
            return true;
    return strncasecmp(name, "proxy-", 6) == 0;
}

static int read_header(NetworkBinding *ret, const msgpack_object_kv *pair, Problem *problem)
{
    const msgpack_object_str *name = &pair->key.via.str, *value = &pair->val.via.str;
    NetworkHeader *header = &ret->headers[ret->n];

    if (pair->val.type != MSGPACK_OBJECT_STR || !is_token(name->ptr, name->size) ||
        !is_value(value->ptr, value->size))
        return refuse_binding(ret, problem, "`headers` maps names of HTTP headers to text of one line");
    if (value->size > LIMIT_BINDING_HEADER)
        return refuse_binding(ret, problem, "the value of a header is too long");
    header->name = text_dup((Text){name->ptr, name->size});
    header->value = text_dup((Text){value->ptr, value->size});
    ret->n++;
    if (!header->name || !header->value)
        return refuse_binding(ret, problem, "out of memory");
    return is_ours(header->name)
               ? refuse_binding(ret, problem, "a header that says how messages are passed on cannot be set")
               : 0;
}

static int read_headers(NetworkBinding *ret, const msgpack_object_map *headers, Problem *problem)
{
    int r = 0;

    if (!headers || headers->size == 0)
        return 0;
    if (headers->size > LIMIT_BINDING_HEADERS)
        return refuse_binding(ret, problem, "too many headers");
    ret->headers = calloc(headers->size, sizeof(*ret->headers));
    if (!ret->headers)
        return refuse_binding(ret, problem, "out of memory");
    for (uint32_t i = 0; r == 0 && i < headers->size; i++)
        r = read_header(ret, &headers->ptr[i], problem);
    return r;
}

static int read_binding(NetworkBinding *ret, const msgpack_object_kv *pair, Problem *problem)
{
    MsgBinding said;
    Problem why = PROBLEM_NULL;
    int r = read_name(ret, &pair->key, problem);

    if (r < 0)
        return r;
    if (pair->val.type != MSGPACK_OBJECT_MAP || body_decode(&said, MsgBinding, &pair->val.via.map, &why) < 0)
        return refuse_binding(ret, problem, "it is {\"url\": text, \"headers\": {name: text}}");
    r = read_url(ret, said.url, problem);
    if (r == 0)
        r = read_headers(ret, said.headers.map, problem);
    if (r == 0 && ret->relays && ret->n != 1)
        return refuse_binding(ret, problem, "one that is egress:// has one header");
    return r;
}

/* NULL: none. */
static int network_read_bindings(Network *network, const msgpack_object_map *bindings, Problem *problem)
{
    int r = 0;

    if (!bindings || bindings->size == 0)
        return 0;
    if (bindings->size > LIMIT_BINDINGS)
        return problem_set(problem, ERR_TOO_LARGE, "bindings: there may be at most %u", LIMIT_BINDINGS);
    network->bindings = calloc(bindings->size, sizeof(*network->bindings));
    if (!network->bindings)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    for (uint32_t i = 0; r == 0 && i < bindings->size; i++)
        r = read_binding(&network->bindings[network->n_bindings++], &bindings->ptr[i], problem);
    for (size_t i = 0; r == 0 && network->n_bindings > 1 && i < network->n_bindings; i++)
        if (network->bindings[i].relays)
            r = refuse_binding(&network->bindings[i], problem, "one that is egress:// is the only one");
    return r;
}

/* ---- without what is secret ---- */

static void write_binding(Writer *w, const msgpack_object *binding)
{
    const msgpack_object *url =
        binding->type == MSGPACK_OBJECT_MAP ? map_find(&binding->via.map, "url") : NULL;

    write_map(w, 1);
    write_key(w, "url");
    write_object(w, url);
}

void network_write_public(Writer *w, const void *source)
{
    const msgpack_object_map *bindings = source;

    write_map(w, bindings->size);
    for (uint32_t i = 0; i < bindings->size; i++) {
        write_object(w, &bindings->ptr[i].key);
        write_binding(w, &bindings->ptr[i].val);
    }
}

/* ---- rules ---- */

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

/* "host", "host:port", "*.domain:port", "*", an address with brackets where it is IPv6. 0, or -EPROTO with
 * the problem set. */
static int network_rule_parse(NetworkRule *ret, Text pattern, Problem *problem)
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

const NetworkBinding *network_relay(const Network *network)
{
    return network->n_bindings == 1 && network->bindings[0].relays ? &network->bindings[0] : NULL;
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
