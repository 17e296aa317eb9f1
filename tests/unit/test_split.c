/* guest/interpreter/split.h: where the last statement of a cell begins. tests/interpreter/test_split.py
 * compares its answers with the parser's. */
#include <string.h>

#include "tests/support/cmocka.h"

/* The program it belongs to cannot be linked to a test: it embeds Python. */
#include "guest/interpreter/split.c"

static void expect(const char *code, bool nested_quotes, SplitKind kind, const char *tail)
{
    Split split = split_cell(code, strlen(code), nested_quotes);

    if (split.kind != kind)
        fail_msg("%s: kind %d instead of %d", code, split.kind, kind);
    if (kind == SPLIT_TAIL)
        assert_string_equal(code + split.offset, tail);
}

TEST(test_no_value)
{
    static const char *const cells[] = {
        "",
        "\n# c\n",
        "x = 1",
        "x += 1",
        "import os",
        "def f():\n    return 1",
        "x;",
        "x; y;",
        "@d\ndef f(): 1",
        "for i in x: i",
        "x = [\n1\n]",
        "if x:\n    1\nelse:\n    2",
        "x = '''\na\n'''",
        "    x",
    };

    for (size_t i = 0; i < ARRAY_SIZE(cells); i++) {
        expect(cells[i], false, SPLIT_WHOLE, NULL);
        expect(cells[i], true, SPLIT_WHOLE, NULL);
    }
}

TEST(test_tail)
{
    static const char *const cells[][2] = {
        {"x", "x"},
        {"x = 1\nx\n", "x\n"},
        {"x = 1\nx # c\n# d", "x # c\n# d"},
        {"f(\na=1\n)", "f(\na=1\n)"},
        {"'''\na\n'''", "'''\na\n'''"},
        {"a = '''\n'''\n'''\nx\n'''", "'''\nx\n'''"},
        {"x = 1 \\\n+ 2\nx == 1", "x == 1"},
        {"lambda a=1: a", "lambda a=1: a"},
        {"def f():\n    x = 1\n\nf()", "f()"},
        {"x = 1\nf'{x=}'", "f'{x=}'"},
        {"y\n'\\'='", "'\\'='"},
        {"imported", "imported"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cells); i++) {
        expect(cells[i][0], false, SPLIT_TAIL, cells[i][1]);
        expect(cells[i][0], true, SPLIT_TAIL, cells[i][1]);
    }
}

TEST(test_left_to_the_parser)
{
    static const char *const cells[] = {"x; y", "(", ")", "'", "'''x", "x\f", "x \\ y", "[)\n]]", "x\ry"};

    for (size_t i = 0; i < ARRAY_SIZE(cells); i++)
        expect(cells[i], false, SPLIT_UNSURE, NULL);
}

TEST(test_quotes_inside_fields)
{
    expect("f'{d['a=b']}'", true, SPLIT_TAIL, "f'{d['a=b']}'");
    expect("f'{d['a=b']}'", false, SPLIT_WHOLE, NULL);
    expect("f'''{\nx\n}'''", true, SPLIT_TAIL, "f'''{\nx\n}'''");
    expect("x\nf'{x:{'='}>10}'", true, SPLIT_TAIL, "f'{x:{'='}>10}'");
    expect("f'\\N{DASH}{'='}'", true, SPLIT_TAIL, "f'\\N{DASH}{'='}'");
    expect("f'{{'\n'='", true, SPLIT_TAIL, "'='");
    expect("f'{'", true, SPLIT_UNSURE, NULL);
}

TEST(test_deep_nesting_is_left_to_the_parser)
{
    char code[4096] = "";

    for (int i = 0; i < 1000; i++)
        strcat(code, "f'{");
    expect(code, true, SPLIT_UNSURE, NULL);
}
