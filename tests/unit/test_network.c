/* Rules of what may be reached: addresses, rules, bindings. */
#include <arpa/inet.h>
#include <string.h>

#include "host/network/network.h"
#include "tests/support/cmocka.h"

static IpAddress parse(const char *text)
{
    IpAddress address;

    if (!ip_parse(&address, text))
        fail_msg("%s is no address", text);
    return address;
}

TEST(test_what_is_not_public)
{
    static const char *const refused[] = {
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.100.100.200",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "169.254.170.2",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.9",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "168.63.129.16",
        "::",
        "::1",
        "::2",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:0:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:10::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "ff0e::1",
        "4000::1",
    };

    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
        IpAddress address = parse(refused[i]);

        if (ip_is_public(&address))
            fail_msg("%s is taken for public", refused[i]);
    }
}

TEST(test_what_is_public)
{
    static const char *const allowed[] = {
        "1.1.1.1",         "9.255.255.255",   "11.0.0.0",
        "100.63.255.255",  "100.128.0.0",     "126.255.255.255",
        "128.0.0.0",       "169.253.0.1",     "169.255.0.1",
        "172.15.255.255",  "172.32.0.0",      "192.0.1.0",
        "192.167.255.255", "192.169.0.0",     "198.17.255.255",
        "198.20.0.0",      "223.255.255.255", "168.63.129.15",
        "::ffff:8.8.8.8",  "2001:200::1",     "2001:4860:4860::8888",
        "2606:4700::1111", "2a00::1",
    };

    for (size_t i = 0; i < ARRAY_SIZE(allowed); i++) {
        IpAddress address = parse(allowed[i]);

        if (!ip_is_public(&address))
            fail_msg("%s is not taken for public", allowed[i]);
    }
}

/* ---- rules ---- */

typedef struct Read {
    Buf buf;
    msgpack_unpacked unpacked;
    Value allow, bindings;
    Network network;
    Problem problem;
    int r;
} Read;

static void finish(Read *read, bool bindings)
{
    assert_int_equal(
        msgpack_unpack_next(&read->unpacked, (const char *)buf_head(&read->buf), read->buf.size, NULL),
        MSGPACK_UNPACK_SUCCESS);
    if (bindings)
        read->bindings.map = &read->unpacked.data.via.map;
    else
        read->allow.array = &read->unpacked.data.via.array;
    read->r = network_read(&read->network, &read->allow, &read->bindings, &read->problem);
}

static void read_rules(Read *read, const char *const *rules)
{
    Writer w;
    size_t n = 0;

    *read = (Read){0};
    msgpack_unpacked_init(&read->unpacked);
    while (rules[n])
        n++;
    writer_init(&w, &read->buf);
    write_array(&w, n);
    for (size_t i = 0; i < n; i++)
        write_text(&w, rules[i]);
    assert_int_equal(writer_finish(&w), 0);
    finish(read, false);
}

#define RULES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void read_binding(Read *read, const char *name, const char *url, const char *header, const char *value)
{
    Writer w;

    *read = (Read){0};
    msgpack_unpacked_init(&read->unpacked);
    writer_init(&w, &read->buf);
    write_map(&w, 1);
    write_text(&w, name);
    write_map(&w, 2);
    write_key(&w, "url");
    write_text(&w, url);
    write_key(&w, "headers");
    write_map(&w, header != NULL);
    if (header) {
        write_text(&w, header);
        write_text(&w, value);
    }
    assert_int_equal(writer_finish(&w), 0);
    finish(read, true);
}

static void done(Read *read)
{
    network_deinit(&read->network);
    msgpack_unpacked_destroy(&read->unpacked);
    buf_deinit(&read->buf);
}

TEST(test_rules)
{
    Read read;

    read_rules(&read, RULES("API.example.com.", "*.Example.org:8443", "10.0.0.5:80", "[2606:4700::1]:443",
                            "localhost:3"));
    assert_int_equal(read.r, 0);
    assert_true(network_allows(&read.network, "api.example.com", 443));
    assert_false(network_allows(&read.network, "api.example.com", 80));
    assert_false(network_allows(&read.network, "x.api.example.com", 443));
    assert_true(network_allows(&read.network, "a.example.org", 8443));
    assert_true(network_allows(&read.network, "a.b.example.org", 8443));
    assert_false(network_allows(&read.network, "example.org", 8443));
    assert_false(network_allows(&read.network, "badexample.org", 8443));
    assert_false(network_allows(&read.network, "a.example.org.evil.com", 8443));
    assert_true(network_allows(&read.network, "10.0.0.5", 80));
    assert_true(network_allows(&read.network, "2606:4700::1", 443));
    assert_true(network_allows(&read.network, "localhost", 3));
    done(&read);
}

TEST(test_any_name_is_no_address)
{
    Read read;

    read_rules(&read, RULES("*:443"));
    assert_true(network_allows(&read.network, "example.com", 443));
    assert_false(network_allows(&read.network, "10.0.0.5", 443));
    assert_false(network_allows(&read.network, "8.8.8.8", 443));
    done(&read);
}

TEST(test_malformed_rules)
{
    static const char *const wrong[] = {
        "",     ":443",  "a:",       "a:0",      "a:65536",
        "a:1x", "a b",   "a/b",      "http://a", "*.",
        "*a",   "a.*.b", "a..b",     ".a",       "*.10.0.0.1:80",
        "::1",  "[::1",  "[::1]x:3", "a:80:80",  "ex\xc3\xa4mple.com",
        "a@b",
    };

    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        Read read;

        read_rules(&read, RULES(wrong[i]));
        if (read.r == 0)
            fail_msg("'%s' is taken for a rule", wrong[i]);
        assert_int_equal(read.problem.code, ERR_BAD_REQUEST);
        done(&read);
    }
}

/* Whatever name led there, and however the address is written. */
TEST(test_addresses)
{
    IpAddress public = parse("8.8.8.8"), private = parse("10.0.0.5"), mapped = parse("::ffff:10.0.0.5");
    IpAddress loopback = parse("127.0.0.1"), other = parse("127.0.0.2"), six = parse("::1");
    IpAddress metadata = parse("169.254.169.254");
    Read read;

    read_rules(&read, RULES("*:443", "10.0.0.5:80", "localhost:8080", "127.0.0.2:443"));
    assert_true(network_allows_address(&read.network, &public, 443, false));
    assert_false(network_allows_address(&read.network, &public, 443, true)); /* one of this machine */
    assert_false(network_allows_address(&read.network, &metadata, 443, false));
    assert_false(network_allows_address(&read.network, &private, 443, false));
    assert_true(network_allows_address(&read.network, &private, 80, false));
    assert_true(network_allows_address(&read.network, &mapped, 80, false));
    assert_true(network_allows_address(&read.network, &loopback, 8080, true));
    assert_true(network_allows_address(&read.network, &six, 8080, true));
    assert_false(network_allows_address(&read.network, &loopback, 443, true));
    assert_true(network_allows_address(&read.network, &other, 443, true));
    assert_false(network_allows_address(&read.network, &other, 8080, true));
    done(&read);
}

/* ---- bindings ---- */

TEST(test_a_binding)
{
    const NetworkBinding *binding;
    IpAddress public = parse("8.8.8.8"), loopback = parse("127.0.0.1");
    Read read;

    read_binding(&read, "openai", "https://API.example.com/v1/", "Authorization", "Bearer secret");
    assert_int_equal(read.r, 0);
    binding = network_binding(&read.network, "openai.limpet");
    assert_non_null(binding);
    assert_true(binding->is_secure);
    assert_string_equal(binding->host, "api.example.com");
    assert_int_equal(binding->port, 443);
    assert_string_equal(binding->path, "/v1");
    assert_true(network_binding_allows_address(binding, &public, false));
    assert_false(network_binding_allows_address(binding, &loopback, true));
    assert_null(network_binding(&read.network, "openai.limpet.com"));
    assert_null(network_binding(&read.network, "openai"));
    assert_null(network_binding(&read.network, "xopenai.limpet"));
    assert_false(network_allows(&read.network, "api.example.com", 443));
    done(&read);

    read_binding(&read, "a", "http://127.0.0.1:8080", NULL, NULL);
    assert_int_equal(read.r, 0);
    assert_true(network_binding_allows_address(&read.network.bindings[0], &loopback, true));
    done(&read);
}

TEST(test_one_that_relays)
{
    IpAddress there = parse("10.96.0.9"), elsewhere = parse("10.96.0.10");
    Read read;

    read_binding(&read, "egress", "egress://10.96.0.9:7311", "rules", "c2VhbGVk");
    assert_int_equal(read.r, 0);
    assert_ptr_equal(network_relay(&read.network), &read.network.bindings[0]);
    assert_int_equal(read.network.bindings[0].port, 7311);
    assert_true(network_binding_allows_address(&read.network.bindings[0], &there, false));
    assert_false(network_binding_allows_address(&read.network.bindings[0], &elsewhere, false));
    done(&read);
    read_binding(&read, "a", "https://a", "A", "1");
    assert_null(network_relay(&read.network));
    done(&read);
}

TEST(test_malformed_bindings)
{
    static const char *const wrong[][4] = {
        {"", "https://a", "A", "1"},
        {"Open", "https://a", "A", "1"},
        {"a.b", "https://a", "A", "1"},
        {"-a", "https://a", "A", "1"},
        {"a", "ftp://a", "A", "1"},
        {"a", "a", "A", "1"},
        {"a", "https://", "A", "1"},
        {"a", "https://u:top-secret@a/", "A", "1"},
        {"a", "https://a/?top-secret", "A", "1"},
        {"a", "https://a/x y", "A", "1"},
        {"a", "https://a:99999/", "A", "1"},
        {"a", "https://a", "A b", "1"},
        {"a", "https://a", "A", "top-secret\r\nB: 2"},
        {"a", "https://a", "Host", "top-secret"},
        {"a", "https://a", "Content-Length", "1"},
        {"a", "https://a", "Proxy-Authorization", "top-secret"},
        {"a", "https://a", "A:", "1"},
        {"a", "egress://10.0.0.1:1", NULL, NULL},
        {"a", "egress://10.0.0.1", "A", "1"},
        {"a", "egress://10.0.0.1:1/", "A", "1"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        Read read;

        read_binding(&read, wrong[i][0], wrong[i][1], wrong[i][2], wrong[i][3]);
        if (read.r == 0)
            fail_msg("%s %s %s is taken for a binding", wrong[i][0], wrong[i][1], wrong[i][2]);
        assert_null(strstr(read.problem.text, "top-"));
        done(&read);
    }
}

TEST(test_what_is_told_has_no_headers)
{
    Buf told = BUF_NULL;
    Writer w;
    Read read;

    read_binding(&read, "a", "https://a/v1", "Authorization", "top-secret");
    writer_init(&w, &told);
    network_write_public(&w, &read.unpacked.data.via.map);
    assert_int_equal(writer_finish(&w), 0);
    assert_null(memmem(buf_head(&told), told.size, "secret", 6));
    assert_null(memmem(buf_head(&told), told.size, "Authorization", 13));
    assert_non_null(memmem(buf_head(&told), told.size, "https://a/v1", 12));
    buf_deinit(&told);
    done(&read);
}
