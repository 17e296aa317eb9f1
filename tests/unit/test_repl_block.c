/* clients/c/cli/repl/block.c: when what was typed can be run. */
#include <string.h>

#include "clients/c/cli/repl/block.h"
#include "proto/base/base.h"
#include "tests/support/cmocka.h"

/* Texts end as the editor hands them over: with the line end of Enter. */
static const char *const complete[] = {
    "",
    "\n",
    "x = 1\n",
    "# only a comment\n",
    "   \n",
    "f(1,\n  2)\n",
    "s = '''one\ntwo'''\n",
    "s = \"\"\"one \\\"\"\" two\"\"\"\n",
    "x = 1 + \\\n  2\n",
    "s = 'a\\\nb'\n",
    "print('it\\'s')\n",
    "x = '#'  # ' (\n",
    "if x:\n    y\n\n",
    "if x: y\n\n",
    "def f():\n    return 1\n    \n",
    "def f():\n\n    return 1\nf()\n",
    "x = 1\ny = 2\nprint(x + y)\n",
    "@decorator\ndef f():\n    pass\n\n",
    "match = {'a': 1}\n",
    "classes = 1\n",
    "format(x)\n",
    "f'{x[\"a\"]}'\n",
    "x = r'\\\\'\n",
    "ü = 'ü'\n",
    "if x:\n    y\nz = 1\n",
};

/* Python says what is wrong with these. */
static const char *const wrong[] = {
    "x = )\n",
    "x = 'not closed\n",
    "x = 'not closed\nf(\n",
    "(]}\n",
};

static const char *const incomplete[] = {
    "if x:\n",
    "if x: y\n",
    "for x in y: print(x)\n",
    "def f():\n    return 1\n",
    "def f():\n    return 1",
    "def f():\n\n    return 1\n",
    "class A:\n    # a comment\n",
    "if x:\n    y\n# a comment\n",
    "if x:\n    y\nelse:\n",
    "try:\n    y\nexcept ValueError:\n    pass\n",
    "async def f():\n",
    "with open(x) as f:\n",
    "match x:\n",
    "@decorator\n",
    "@decorator(\n",
    "f(1,\n",
    "f(1,\n\n",
    "x = [\n  # (\n",
    "x = {'a': [1, (2,\n",
    "s = '''one\n",
    "s = '''one\n\n",
    "s = '''it\\'''\n",
    "s = \"\"\"'''\n",
    "x = 1 + \\\n",
    "s = 'a\\\n",
    "x = 1\nif x:\n    y\n",
};

TEST(complete_texts)
{
    for (size_t i = 0; i < ARRAY_SIZE(complete); i++)
        if (!block_complete(complete[i], strlen(complete[i])))
            fail_msg("incomplete: %s", complete[i]);
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
        if (!block_complete(wrong[i], strlen(wrong[i])))
            fail_msg("incomplete: %s", wrong[i]);
}

TEST(incomplete_texts)
{
    for (size_t i = 0; i < ARRAY_SIZE(incomplete); i++)
        if (block_complete(incomplete[i], strlen(incomplete[i])))
            fail_msg("complete: %s", incomplete[i]);
}

/* Exactly as many bytes are looked at as there are. */
TEST(every_beginning)
{
    for (size_t i = 0; i < ARRAY_SIZE(complete); i++)
        for (size_t size = 0; size <= strlen(complete[i]); size++) {
            char *copy = malloc(size + 1);

            memcpy(copy + 1, complete[i], size);
            block_complete(copy + 1, size);
            block_empty(copy + 1, size);
            block_indent(copy + 1, size);
            free(copy);
        }
    assert_true(block_complete("x\0(", 2));
    assert_false(block_complete("x\0(", 3));
}

TEST(empty_texts)
{
    assert_true(block_empty("", 0));
    assert_true(block_empty("  \n# nothing\n", 13));
    assert_false(block_empty("x", 1));
    assert_false(block_empty("'", 1));
}

static size_t indent(const char *text)
{
    return block_indent(text, strlen(text));
}

TEST(next_lines)
{
    assert_int_equal(indent("if x:\n"), 4);
    assert_int_equal(indent("if x:  # why\n"), 4);
    assert_int_equal(indent("if x:\n    y\n"), 4);
    assert_int_equal(indent("def f():\n    if x:\n"), 8);
    assert_int_equal(indent("def f():\n    if x:\n        return y\n"), 4);
    assert_int_equal(indent("def f():\n    returned = 1\n"), 4);
    assert_int_equal(indent("for x in y:\n    pass\n"), 0);
    assert_int_equal(indent("class A:\n\tx = 1\n"), 8);
    assert_int_equal(indent("@decorator\n"), 0);
    assert_int_equal(indent("f(\n"), 0);
    assert_int_equal(indent("if x: y\n"), 0);
    assert_int_equal(indent(""), 0);
}
