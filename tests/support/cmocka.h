/* cmocka.h, behind what it needs; and tests that no list has to name. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A test: TEST(name) { … }. Those of a file run in its order; its main() is that of cmocka.c unless it has
 * one. */
#define TEST(name) TEST_WITH(name, NULL, NULL)

/* A test, what runs before it, and what after it. */
#define TEST_WITH(name, set_up, tear_down)                                                                   \
    static void name(void **state);                                                                          \
    __attribute__((constructor(TEST_FIRST + __LINE__))) static void add_##name(void)                         \
    {                                                                                                        \
        test_add((struct CMUnitTest)cmocka_unit_test_setup_teardown(name, set_up, tear_down));               \
    }                                                                                                        \
    static void name(void **state)

#define TEST_FIRST 1000 /* constructors before it are the compiler's */

void test_add(struct CMUnitTest test);

/* Runs them all; returns how many failed. */
int tests_run(CMFixtureFunction set_up, CMFixtureFunction tear_down);
