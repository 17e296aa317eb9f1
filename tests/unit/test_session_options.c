#include <string.h>

#include "host/config/session_options.h"
#include "tests/support/cmocka.h"

static const Options defaults = {
    .timeout = 30,
    .memory = 1u << 30,
    .cpus = 1,
    .pids = 128,
    .disk = 1u << 30,
    .files = 100000,
    .ttl = 3600,
    .image = (char *)"",
    .checkpoint = (char *)"always",
    .allow_network = (char *)"bridge",
};

/* The body of an `open` written by `write`; what was decoded points into it. */
typedef struct Body {
    Buf buf;
    Message message;
} Body;

static void body_init(Body *body, size_t n, void (*write)(Writer *w))
{
    Problem problem = PROBLEM_NULL;
    Writer w;

    *body = (Body){0};
    writer_message(&w, &body->buf, MSG_OPEN, 1, n + 1);
    write_key(&w, "session");
    write_text(&w, "a");
    write(&w);
    assert_int_equal(writer_finish(&w), 0);
    assert_int_equal(message_decode(&body->message, buf_head(&body->buf), body->buf.size, &problem), 0);
}

static void body_deinit(Body *body)
{
    message_deinit(&body->message);
    buf_deinit(&body->buf);
}

static void write_nothing(Writer *w)
{
}

static void write_unknown(Writer *w)
{
    write_key(w, "memroy");
    write_text(w, "512m");
}

static void write_host_network(Writer *w)
{
    write_key(w, "network");
    write_text(w, "host");
}

static void write_bad_env(Writer *w)
{
    write_key(w, "env");
    write_map(w, 1);
    write_key(w, "A=B");
    write_text(w, "1");
}

static void write_bad_checkpoint(Writer *w)
{
    write_key(w, "checkpoint");
    write_text(w, "Always");
}

static void write_small_disk(Writer *w)
{
    write_key(w, "disk");
    write_text(w, "3m");
}

static void write_little_memory(Writer *w)
{
    write_key(w, "memory");
    write_text(w, "63m");
}

static void write_much_memory(Writer *w)
{
    write_key(w, "memory");
    write_uint(w, UINT64_C(1) << 63);
}

static void write_no_timeout(Writer *w)
{
    write_key(w, "timeout");
    write_uint(w, 0);
}

static void write_few_files(Writer *w)
{
    write_key(w, "files");
    write_uint(w, 99);
}

static void write_rule_list(Writer *w, const char *first, const char *second)
{
    write_key(w, "allow");
    write_array(w, 2);
    write_text(w, first);
    write_text(w, second);
}

static void write_binding(Writer *w, const char *value)
{
    write_key(w, "bindings");
    write_map(w, 1);
    write_key(w, "api");
    write_map(w, 2);
    write_key(w, "url");
    write_text(w, "https://api.example.com");
    write_key(w, "headers");
    write_map(w, 1);
    write_key(w, "Authorization");
    write_text(w, value);
}

static void write_rules(Writer *w)
{
    write_rule_list(w, "a.example", "*.b.example:8443");
    write_binding(w, "top-secret");
}

static void write_rules_in_other_order(Writer *w)
{
    write_rule_list(w, "*.b.example:8443", "a.example");
    write_binding(w, "top-secret");
}

static void write_other_rules(Writer *w)
{
    write_rule_list(w, "a.example", "c.example");
    write_binding(w, "other");
}

static void write_no_network(Writer *w)
{
    write_key(w, "network");
    write_text(w, "none");
}

static void write_rules_beside_a_network(Writer *w)
{
    write_rule_list(w, "a.example", "c.example");
    write_key(w, "network");
    write_text(w, "bridge");
}

static void write_bad_rules(Writer *w)
{
    write_rule_list(w, "a.example", "http://a.example");
}

static void write_large_binding(Writer *w)
{
    static char large[LIMIT_BINDING_HEADER + 2];

    memset(large, 'x', sizeof(large) - 1);
    write_binding(w, large);
}

static size_t differences(const SessionOptions *options, size_t n, void (*write)(Writer *w),
                          const char **names)
{
    Body body;
    MsgOpen open;
    Problem problem = PROBLEM_NULL;
    size_t count;

    body_init(&body, n, write);
    assert_int_equal(body_decode(&open, MsgOpen, &body.message.body, &problem), 0);
    count = session_options_differ(options, &open.options, names);
    body_deinit(&body);
    return count;
}

static ErrorCode refused(size_t n, void (*write)(Writer *w), const char *words)
{
    Body body;
    MsgOpen open;
    SessionOptions options = {0};
    Problem problem = PROBLEM_NULL;

    body_init(&body, n, write);
    if (body_decode(&open, MsgOpen, &body.message.body, &problem) == 0)
        assert_true(session_options_settle(&options, &open.options, &defaults, &problem) < 0);
    session_options_deinit(&options);
    body_deinit(&body);
    assert_non_null(strstr(problem.text, words));
    return problem.code;
}

TEST(test_refusals)
{
    assert_int_equal(refused(1, write_unknown, "memroy"), ERR_BAD_REQUEST);
    assert_int_equal(refused(1, write_host_network, "allow_network"), ERR_DENIED);
    assert_int_equal(refused(1, write_bad_env, "env"), ERR_BAD_REQUEST);
    assert_int_equal(refused(1, write_bad_checkpoint, "auto, always or off"), ERR_BAD_REQUEST);
    assert_int_equal(refused(1, write_small_disk, "disk must be from 4m to 8t"), ERR_BAD_REQUEST);
    assert_int_equal(refused(1, write_few_files, "files must be from 100 to 100000000"), ERR_BAD_REQUEST);
    assert_int_equal(refused(1, write_little_memory, "memory must be at least 64m"), ERR_BAD_REQUEST);
    assert_int_equal(refused(1, write_much_memory, "memory must be at least 64m"), ERR_BAD_REQUEST);
    assert_int_equal(refused(1, write_bad_rules, "'http://a.example' is no destination"), ERR_BAD_REQUEST);
    assert_int_equal(refused(2, write_rules_beside_a_network, "with the network 'none', not 'bridge'"),
                     ERR_BAD_REQUEST);
    assert_int_equal(refused(1, write_large_binding, "api: the value of a header is too long"),
                     ERR_BAD_REQUEST);
    assert_int_equal(refused(1, write_no_timeout, "timeout must be above 0 and at most 86400"),
                     ERR_BAD_REQUEST);
}

TEST(test_what_it_may_reach)
{
    Body body;
    MsgOpen open;
    SessionOptions options = {0}, changed;
    MsgSetNetwork change;
    MsgOptions told;
    Buf said = BUF_NULL;
    Problem problem = PROBLEM_NULL;
    const char *names[SESSION_OPTION_COUNT];

    body_init(&body, 2, write_rules);
    assert_int_equal(body_decode(&open, MsgOpen, &body.message.body, &problem), 0);
    assert_int_equal(session_options_settle(&options, &open.options, &defaults, &problem), 0);
    body_deinit(&body);
    assert_true(session_options_reach(&options));
    assert_int_equal(differences(&options, 0, write_nothing, names), 0);
    assert_int_equal(differences(&options, 2, write_rules_in_other_order, names), 0);
    assert_int_equal(differences(&options, 2, write_other_rules, names), 2);
    assert_string_equal(names[0], "allow");
    assert_string_equal(names[1], "bindings");
    assert_int_equal(differences(&options, 1, write_no_network, names), 1);
    assert_string_equal(names[0], "network");

    told = session_options_to_wire_public(&options);
    assert_int_equal(body_encode(&said, MsgOptions, &told), 0);
    assert_non_null(memmem(buf_head(&said), said.size, "https://api.example.com", 23));
    assert_null(memmem(buf_head(&said), said.size, "top-secret", 10));
    buf_deinit(&said);

    body_init(&body, 1, write_bad_rules);
    body_clear(&change, MsgSetNetwork);
    assert_int_equal(body_decode(&open, MsgOpen, &body.message.body, &problem), 0);
    change.allow = open.options.allow;
    assert_true(session_options_change_network(&changed, &options, &change, &problem) < 0);
    session_options_take_network(&options, &changed, false);
    body_deinit(&body);
    assert_int_equal(differences(&options, 2, write_rules, names), 0); /* as it was */
    body_init(&body, 2, write_other_rules);
    assert_int_equal(body_decode(&open, MsgOpen, &body.message.body, &problem), 0);
    change.allow = open.options.allow;
    assert_int_equal(session_options_change_network(&changed, &options, &change, &problem), 0);
    session_options_take_network(&options, &changed, true);
    body_deinit(&body);
    assert_int_equal(differences(&options, 2, write_other_rules, names), 1);
    assert_string_equal(names[0], "bindings"); /* those stay */
    session_options_deinit(&options);
}

static void write_journal_without_disks(Writer *w)
{
    static const char *const texts[][2] = {{"network", "none"}, {"image", ""}, {"checkpoint", "auto"}};
    static const char *const numbers[] = {"timeout", "memory", "cpus", "pids", "ttl"};

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        write_key(w, texts[i][0]);
        write_text(w, texts[i][1]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        write_key(w, numbers[i]);
        write_uint(w, 1u << 30);
    }
    write_key(w, "env");
    write_map(w, 0);
}

/* A session that an earlier version of the controller made. */
TEST(test_read_without_disks)
{
    Buf buf = BUF_NULL;
    Message message;
    SessionOptions options = {0};
    Problem problem = PROBLEM_NULL;
    Writer w;

    writer_message(&w, &buf, MSG_OPEN, 1, 9);
    write_journal_without_disks(&w);
    assert_int_equal(writer_finish(&w), 0);
    assert_int_equal(message_decode(&message, buf_head(&buf), buf.size, &problem), 0);
    assert_int_equal(session_options_read(&options, &message.body, &problem), 0);
    assert_int_equal(options.disk, DISK_MAXIMUM);
    assert_int_equal(options.files, FILES_MAXIMUM);
    session_options_deinit(&options);
    message_deinit(&message);
    buf_deinit(&buf);
}
