/* Reports of the interpreter about its state, which are checked before they are passed on: variables of the
 * namespace, and notes (guest/supervisor/branch/state_change.h). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "guest/supervisor/branch/state_change.h"

/* A message whose body is written by `write`, decoded as it would be on arrival. */
typedef struct Said {
    Buf bytes;
    Message message;
} Said;

static void said_deinit(Said *said)
{
    message_deinit(&said->message);
    buf_deinit(&said->bytes);
}

static void say(Said *ret, size_t fields, void (*write)(Writer *w, size_t n), size_t n)
{
    Problem problem = PROBLEM_NULL;
    Writer w;

    *ret = (Said){0};
    writer_message(&w, &ret->bytes, MSG_NAMESPACE, 1, fields);
    write(&w, n);
    assert_int_equal(writer_finish(&w), 0);
    assert_int_equal(message_decode(&ret->message, buf_head(&ret->bytes), ret->bytes.size, &problem), 0);
}

static void write_variables(Writer *w, size_t n)
{
    write_array(w, n);
    for (size_t i = 0; i < n; i++) {
        write_map(w, 3);
        write_key(w, "name");
        write_text(w, "x");
        write_key(w, "type");
        write_text(w, "int");
        write_key(w, "shape");
        write_array(w, 2);
        write_uint(w, 1);
        write_uint(w, UINT64_MAX);
    }
}

static void write_namespace(Writer *w, size_t n)
{
    write_key(w, "names");
    write_variables(w, n);
    write_key(w, "more");
    write_uint(w, 0);
}

static void write_added(Writer *w, size_t n)
{
    write_key(w, "added");
    write_variables(w, n);
    write_key(w, "changed");
    write_array(w, 0);
    write_key(w, "deleted");
    write_array(w, 0);
    write_key(w, "more");
    write_uint(w, 7);
}

static int check_namespace(size_t n)
{
    MsgNamespace namespace;
    Said said _cleanup_(said_deinit);
    Problem problem = PROBLEM_NULL;

    say(&said, 2, write_namespace, n);
    return body_decode(&namespace, MsgNamespace, &said.message.body, &problem);
}

static int check_changed(size_t n)
{
    MsgChanged changed;
    Said said _cleanup_(said_deinit);
    Problem problem = PROBLEM_NULL;

    say(&said, 4, write_added, n);
    return body_decode(&changed, MsgChanged, &said.message.body, &problem);
}

static void test_counts(void **state)
{
    assert_int_equal(check_namespace(0), 0);
    assert_int_equal(check_namespace(LIMIT_NAMESPACE), 0);
    assert_int_equal(check_namespace(LIMIT_NAMESPACE + 1), -EPROTO);
    assert_int_equal(check_changed(0), 0);
    assert_int_equal(check_changed(LIMIT_CHANGED), 0);
    assert_int_equal(check_changed(LIMIT_CHANGED + 1), -EPROTO);
}

static void write_dimensions(Writer *w, size_t n)
{
    write_key(w, "more");
    write_uint(w, 0);
    write_key(w, "names");
    write_array(w, 1);
    write_map(w, 3);
    write_key(w, "name");
    write_text(w, "x");
    write_key(w, "type");
    write_text(w, "numpy.ndarray");
    write_key(w, "shape");
    write_array(w, n);
    for (size_t i = 0; i < n; i++)
        write_uint(w, i);
}

static void write_negative(Writer *w, size_t n)
{
    write_dimensions(w, 0);
    w->buf->size--; /* the empty array */
    write_array(w, 1);
    write_int(w, -1);
}

static void write_long_name(Writer *w, size_t n)
{
    char name[LIMIT_NOTE + 1];

    memset(name, 'x', sizeof(name));
    write_key(w, "more");
    write_uint(w, 0);
    write_key(w, "names");
    write_array(w, 1);
    write_map(w, 2);
    write_key(w, "type");
    write_text(w, "int");
    write_key(w, "name");
    write_text_n(w, name, n);
}

static int check(void (*write)(Writer *w, size_t n), size_t n)
{
    MsgNamespace namespace;
    Said said _cleanup_(said_deinit);
    Problem problem = PROBLEM_NULL;

    say(&said, 2, write, n);
    return body_decode(&namespace, MsgNamespace, &said.message.body, &problem);
}

static void test_fields(void **state)
{
    assert_int_equal(check(write_dimensions, 0), 0);
    assert_int_equal(check(write_dimensions, 64), 0);
    assert_int_equal(check(write_dimensions, 65), -EPROTO);
    assert_int_equal(check(write_negative, 0), -EPROTO);
    assert_int_equal(check(write_long_name, LIMIT_NOTE), 0);
    assert_int_equal(check(write_long_name, LIMIT_NOTE + 1), -EPROTO);
}

/* EncodedNotes */

static void write_notes(Writer *w, size_t n)
{
    write_key(w, "not_restored");
    write_array(w, n);
    for (size_t i = 0; i < n; i++)
        write_text(w, "a thread");
}

static int decode_notes(EncodedNotes *notes, size_t n)
{
    Said said _cleanup_(said_deinit);
    Problem problem = PROBLEM_NULL;

    MsgReady ready;
    int r;

    say(&said, 1, write_notes, n);
    r = body_decode(&ready, MsgReady, &said.message.body, &problem);
    if (r == 0)
        notes_add_all(notes, &ready.not_restored);
    return r;
}

static void assert_written(const EncodedNotes *notes, size_t n)
{
    Buf bytes _cleanup_(buf_deinit) = BUF_NULL;
    const Value said = notes_say(notes);
    Writer w;

    writer_init(&w, &bytes);
    said.write(&w, said.source);
    assert_int_equal(writer_finish(&w), 0);
    assert_int_equal(wire_check(buf_head(&bytes), bytes.size), 0);
    assert_int_equal(notes->n, n);
}

static void test_notes(void **state)
{
    EncodedNotes notes _cleanup_(notes_deinit) = NOTES_NULL;

    assert_written(&notes, 0);
    notes_add(&notes, (Text){"2 processes were ended", 22});
    assert_int_equal(decode_notes(&notes, 2), 0);
    assert_written(&notes, 3);
    assert_int_equal(decode_notes(&notes, LIMIT_NOT_RESTORED + 1), -EPROTO);
    assert_int_equal(decode_notes(&notes, LIMIT_NOT_RESTORED), 0);
    assert_written(&notes, LIMIT_NOT_RESTORED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_notes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
