#include "tests/support/cmocka.h"

#include <stdlib.h>

static struct CMUnitTest tests[64]; /* cmocka leaves out those without a name */
static size_t count;

void test_add(struct CMUnitTest test)
{
    if (count == sizeof(tests) / sizeof(tests[0]))
        abort();
    tests[count++] = test;
}

int tests_run(CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

__attribute__((weak)) int main(void)
{
    return tests_run(NULL, NULL);
}
