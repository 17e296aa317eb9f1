/* clients/c/cli/repl/editor.c and words.c: what a terminal sends as pasted, and what Tab offers. */
#include <string.h>

#include "clients/c/cli/repl/editor.h"
#include "clients/c/cli/repl/words.h"
#include "proto/limits.h"
#include "tests/support/cmocka.h"

static void expect_pasted(const wchar_t *sent, const wchar_t *text)
{
    Paste paste = PASTE_NULL;

    while (!paste.ended && *sent)
        paste_add(&paste, *sent++);
    paste_finish(&paste);
    assert_false(paste.failed);
    assert_int_equal(paste.size, wcslen(text));
    if (paste.size > 0)
        assert_int_equal(wcscmp(paste.text, text), 0);
    paste_deinit(&paste);
}

TEST(pasted_texts)
{
    expect_pasted(L"\033[201~", L"");
    expect_pasted(L"x = 1\033[201~y", L"x = 1");
    expect_pasted(L"if x:\r\ty\r\r\033[201~", L"if x:\n\ty");
    expect_pasted(L"a\r\nb\nc\033[201~", L"a\nb\nc");
    expect_pasted(L"\033[31mred\033[0m\a\033[201~", L"[31mred[0m");
    expect_pasted(L"ü€😀\x85"
                  L"\033[201~",
                  L"ü€😀");
    expect_pasted(L"the end never came", L"the end never came");
}

TEST(too_much)
{
    Paste paste = PASTE_NULL;

    for (size_t i = 0; i < 4 * (size_t)LIMIT_CODE; i++)
        paste_add(&paste, L'x');
    for (const wchar_t *c = L"\033[201~"; *c; c++)
        paste_add(&paste, *c);
    assert_true(paste.ended);
    paste_finish(&paste);
    assert_true(paste.failed);
    assert_int_equal(paste.size, 0);
    paste_deinit(&paste);
}

TEST(words_in_common)
{
    Words words = WORDS_NULL;

    assert_int_equal(words_common(&words), 0);
    words_sort(&words);
    words_add(&words, "print", "p");
    words_add(&words, "property", "p");
    words_add(&words, "other", "p");
    words_add(&words, "print", "p");
    words_sort(&words);
    assert_int_equal(words.n, 2);
    assert_string_equal(words.words[0], "print");
    assert_int_equal(words_common(&words), 2);
    words_deinit(&words);
    words_add(&words, "größe", "");
    words_add(&words, "gräte", "");
    words_sort(&words);
    assert_int_equal(words_common(&words), 2); /* not half an ä */
    words_deinit(&words);
}
