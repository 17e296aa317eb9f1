/* Rules that are sealed: the text is the one that tests/kubernetes/test_network.py has the Python client
 * make. */
#include <errno.h>
#include <string.h>

#include "host/egress/sealed.h"
#include "tests/support/cmocka.h"

static const char key[] = "0123456789abcdef0123456789abcdef";
static const char sealed[] = "hKluzTZsowkgbQzrL/syQbZHQtDi1DK98DM6nHANxnMKO7QuU3cefKLzkkpWzD+tH1am+8y9"
                             "GaYG+U4oiYknqKK+SSSmDyhILgSQMGU7T4xsuV/LTgP4xIJqtto=";

static int open_text(const char *with, const char *text, Buf *ret)
{
    uint8_t tag[SEALED_TAG];

    return sealed_open(ret, tag, text_of(with), text_of(text));
}

TEST(test_the_rules_are_there)
{
    static const char rules[] = "\x83\xa5"
                                "allow\x91\xaf"
                                "example.org:443\xa8"
                                "bindings\x81\xa1"
                                "a\x82\xa7"
                                "headers\x81\xa1X\xa1y\xa3url\xa8"
                                "http://b\xa5"
                                "label\xa6"
                                "conv-1";
    Buf found _cleanup_(buf_deinit) = BUF_NULL;

    assert_int_equal(open_text(key, sealed, &found), 0);
    assert_int_equal(found.size, sizeof(rules) - 1);
    assert_memory_equal(buf_head(&found), rules, found.size);
}

TEST(test_nothing_else_opens)
{
    Buf found _cleanup_(buf_deinit) = BUF_NULL;
    char changed[sizeof(sealed)], longest[SEALED_MOST + 5];

    assert_int_equal(open_text("0123456789abcdef0123456789abcdeF", sealed, &found), -EBADMSG);
    for (size_t i = 0; i < strlen(sealed) - 4; i++) { /* the last group has bits that stand for nothing */
        strcpy(changed, sealed);
        changed[i] = changed[i] == 'A' ? 'B' : 'A';
        assert_int_equal(open_text(key, changed, &found), -EBADMSG);
        changed[i] = '!';
        assert_int_equal(open_text(key, changed, &found), -EBADMSG);
        changed[i] = '\0';
        assert_int_equal(open_text(key, changed, &found), -EBADMSG);
    }
    memset(longest, 'A', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(open_text(key, longest, &found), -EBADMSG);
    assert_int_equal(open_text(key, longest + 4, &found), -EBADMSG);
    assert_int_equal(open_text(key, "====", &found), -EBADMSG);
    assert_int_equal(found.size, 0);
}
