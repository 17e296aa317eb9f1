/* Requirements of clients, and reports of installers: text of which little is taken. */
#include <string.h>

#include "host/install/requirements.h"
#include "tests/support/cmocka.h"

static int read_text(const char *text, char ret[static 256])
{
    Buf buf _cleanup_(buf_deinit) = BUF_NULL;
    Problem problem = PROBLEM_NULL;
    int r = requirements_read(&buf, text_of(text), &problem);

    snprintf(ret, 256, "%.*s", (int)buf.size, (const char *)buf_head(&buf));
    assert_true(r == 0 || problem.code == ERR_BAD_REQUEST);
    return r;
}

TEST(test_lines)
{
    char out[256];

    assert_int_equal(read_text("polars\n\n # a comment\n  a[b]>=1,<2 ; python_version > '3'  # why\r\nc @ "
                               "https://x/#y\n",
                               out),
                     0);
    assert_string_equal(out, "polars\na[b]>=1,<2 ; python_version > '3'\nc @ https://x/#y\n");
}

TEST(test_what_is_none)
{
    static const char *const bad[] = {
        "",        "# nothing", "-r other.txt", "--index-url=http://x",
        "-e .",    "./here",    "/etc/passwd",  "a\n--extra-index-url x",
        "a \\\nb", "a\tb",      "a\x01",        "\xc3\xa9",
    };
    char out[256];

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_true(read_text(bad[i], out) < 0);
}

TEST(test_long_lines)
{
    char text[600], out[256];

    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_true(read_text(text, out) < 0);
    text[500] = '\0';
    assert_int_equal(read_text(text, out), 0);
}

static bool are_of(const char *requirements, const char *names)
{
    Buf buf _cleanup_(buf_deinit) = BUF_NULL;

    assert_int_equal(buf_append(&buf, requirements, strlen(requirements)), 0);
    return requirements_are_of(&buf, names);
}

TEST(test_names)
{
    assert_true(are_of("Hello_World==1\nb\n", "hello-world, b"));
    assert_true(are_of("a.b[extra]>=1\n", "A_B"));
    assert_false(are_of("a\nc\n", "a,b"));
    assert_false(are_of("ab\n", "a"));
    assert_false(are_of("a @ https://elsewhere/c.whl\n", "a"));
    assert_false(are_of("a\n", ""));
    assert_false(are_of("a\n", ",,"));
}

TEST(test_lock)
{
    const Text lock = text_of("a==1.0 --hash=sha256:00\nnonsense\n==1\nb==\nc==2!1.0+x\n");
    const MsgInstalled installed = {.packages = lock_packages(&lock), .lock = lock};
    Buf body _cleanup_(buf_deinit) = BUF_NULL;
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;
    MsgInstalled said;
    MsgPackage package;

    assert_int_equal(message_encode(&body, MSG_REPLY, 1, MsgInstalled, &installed), 0);
    assert_int_equal(message_decode(&message, buf_head(&body), body.size, &problem), 0);
    assert_int_equal(body_decode(&said, MsgInstalled, &message.body, &problem), 0);
    assert_int_equal(value_count(&said.packages), 2);
    value_row(&package, MsgPackage, &said.packages, 1);
    assert_true(text_equal(package.name, "c") && text_equal(package.version, "2!1.0+x"));
}

TEST(test_lock_is_text)
{
    assert_true(lock_is_sound(text_of("a==1\n")));
    assert_true(lock_is_sound((Text){0}));
    assert_false(lock_is_sound(text_of("a==1\x1b[2J\n")));
    assert_false(lock_is_sound((Text){"a\0b", 3}));
    assert_false(lock_is_sound(text_of("a==\xff\n")));
}
