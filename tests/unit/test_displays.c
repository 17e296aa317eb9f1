/* guest/supervisor/call/result.h: what is taken from the interpreter, and what it adds up to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "guest/supervisor/call/result.h"

/* A display with one text value, of `size` bytes, as a message. */
static void make_display(Buf *frame, const char *text, size_t size, const char *id, bool update)
{
    Writer w;

    writer_message(&w, frame, MSG_DISPLAY, 1, 3);
    write_key(&w, "data");
    write_map(&w, 1);
    write_key(&w, "text/plain");
    write_text_n(&w, text, size);
    write_key(&w, "display_id");
    write_text(&w, id);
    write_key(&w, "update");
    write_bool(&w, update);
    assert_int_equal(writer_finish(&w), 0);
}

static bool add_frame(Displays *displays, const Buf *frame)
{
    Message message = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;
    MsgDisplay display;

    assert_int_equal(message_decode(&message, buf_head(frame), frame->size, &problem), 0);
    assert_int_equal(display_decode(&display, &message.body, &problem), 0);
    bool added = displays_add(displays, &display);
    message_deinit(&message);
    return added;
}

static bool add(Displays *displays, const char *text, size_t size, const char *id, bool update)
{
    _cleanup_(buf_deinit) Buf frame = BUF_NULL;

    make_display(&frame, text, size, id, update);
    return add_frame(displays, &frame);
}

/* The displays as the record has them, in a message so that message_decode reads and checks them. */
typedef struct Written {
    Buf frame;
    Message message;
    const msgpack_object_array *list;
} Written;

static void write_all(Written *ret, const Displays *displays)
{
    Problem problem = PROBLEM_NULL;
    Writer w;

    *ret = (Written){0};
    const Value said = displays_say(displays);

    writer_message(&w, &ret->frame, MSG_EXECUTED, 1, 1);
    write_key(&w, "displays");
    said.write(&w, said.source);
    assert_int_equal(writer_finish(&w), 0);
    assert_int_equal(message_decode(&ret->message, buf_head(&ret->frame), ret->frame.size, &problem), 0);
    ret->list = &map_find(&ret->message.body, "displays")->via.array;
}

static void written_deinit(Written *written)
{
    message_deinit(&written->message);
    buf_deinit(&written->frame);
}

static Text written_text(const Written *written, uint32_t i)
{
    const msgpack_object *data = map_find(&written->list->ptr[i].via.map, "data");
    const msgpack_object *value = map_find(&data->via.map, "text/plain");

    return (Text){value->via.str.ptr, value->via.str.size};
}

static void test_order_and_update(void **state)
{
    _cleanup_(displays_deinit) Displays displays;
    _cleanup_(written_deinit) Written written;

    displays_init(&displays);
    assert_true(add(&displays, "one", 3, "a", false));
    assert_true(add(&displays, "two", 3, NULL, false));
    assert_true(add(&displays, "ONE", 3, "a", true));
    assert_true(add(&displays, "three", 5, "unknown", true));
    write_all(&written, &displays);
    assert_int_equal(written.list->size, 3);
    assert_true(text_equal(written_text(&written, 0), "ONE"));
    assert_true(text_equal(written_text(&written, 1), "two"));
    assert_true(text_equal(written_text(&written, 2), "three"));
    assert_int_equal(written.list->ptr[0].via.map.size, 4);
}

static void test_too_many(void **state)
{
    _cleanup_(displays_deinit) Displays displays;
    _cleanup_(written_deinit) Written written;

    displays_init(&displays);
    for (unsigned i = 0; i < LIMIT_DISPLAYS + 44; i++)
        assert_int_equal(add(&displays, "x", 1, NULL, false), i < LIMIT_DISPLAYS - 1);
    write_all(&written, &displays);
    assert_int_equal(written.list->size, LIMIT_DISPLAYS);
    assert_memory_equal(written_text(&written, LIMIT_DISPLAYS - 1).data, "45 more displays", 16);
}

static void test_too_many_bytes(void **state)
{
    size_t size = LIMIT_DISPLAY_BYTES / 2 - 4096;
    char *text = calloc(1, size);
    _cleanup_(displays_deinit) Displays displays;
    _cleanup_(written_deinit) Written written;

    displays_init(&displays);
    assert_true(add(&displays, text, size, "a", false));
    assert_true(add(&displays, text, size, "b", false));
    assert_false(add(&displays, text, 8192, NULL, false));
    /* A replacement frees what it replaces. */
    assert_true(add(&displays, "small", 5, "a", true));
    assert_true(add(&displays, text, 8192, NULL, false));
    write_all(&written, &displays);
    assert_int_equal(written.list->size, 4);
    assert_true(written.frame.size < LIMIT_DISPLAY_BYTES);
    free(text);
}

/* data: {"application/json": [[[...]]]}, `depth` arrays, the innermost of `items` numbers. */
static void make_nested(Buf *frame, size_t depth, size_t items)
{
    Writer w;

    writer_message(&w, frame, MSG_DISPLAY, 1, 1);
    write_key(&w, "data");
    write_map(&w, 1);
    write_key(&w, "application/json");
    for (size_t i = 1; i < depth; i++)
        write_array(&w, 1);
    write_array(&w, items);
    for (size_t i = 0; i < items; i++)
        write_uint(&w, 1);
    assert_int_equal(writer_finish(&w), 0);
}

static void test_many_nodes_together(void **state)
{
    _cleanup_(displays_deinit) Displays displays;
    _cleanup_(written_deinit) Written written;
    _cleanup_(buf_deinit) Buf frame = BUF_NULL;

    displays_init(&displays);
    make_nested(&frame, 1, LIMIT_NODES / 4);
    assert_true(add_frame(&displays, &frame));
    assert_false(add_frame(&displays, &frame));
    write_all(&written, &displays); /* which the reader's limits must let pass */
    assert_int_equal(written.list->size, 2);
}

static void test_depth_leaves_room_for_the_record(void **state)
{
    _cleanup_(displays_deinit) Displays displays;
    _cleanup_(buf_deinit) Buf shallow = BUF_NULL, deep = BUF_NULL;

    displays_init(&displays);
    make_nested(&shallow, 10, 0);
    make_nested(&deep, 25, 0);
    assert_true(add_frame(&displays, &shallow));
    assert_false(add_frame(&displays, &deep));
}

static int decode_executed(const Buf *frame, MsgCellExecuted *ret, Displays *displays)
{
    Message message = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;

    assert_int_equal(message_decode(&message, buf_head(frame), frame->size, &problem), 0);
    int r = executed_decode(ret, displays, &message.body, &problem);
    message_deinit(&message);
    return r;
}

static void test_executed_of_nothing(void **state)
{
    _cleanup_(displays_deinit) Displays displays;
    _cleanup_(buf_deinit) Buf frame = BUF_NULL;
    MsgCellExecuted executed;
    Writer w;

    displays_init(&displays);
    writer_message(&w, &frame, MSG_EXECUTED, 1, 2);
    write_key(&w, "error");
    write_nil(&w);
    write_key(&w, "cpu");
    write_double(&w, -1.0);
    assert_int_equal(writer_finish(&w), 0);
    assert_int_equal(decode_executed(&frame, &executed, &displays), 0);
    assert_null(executed.result.data);
    assert_null(executed.error.name.data);
    assert_true(executed.cpu == 0.0);
}

static void test_executed_with_a_long_traceback(void **state)
{
    char *text = calloc(1, LIMIT_TRACEBACK + 1);

    for (size_t over = 0; over < 2; over++) {
        _cleanup_(displays_deinit) Displays displays;
        _cleanup_(buf_deinit) Buf frame = BUF_NULL;
        MsgCellExecuted executed;
        Writer w;

        displays_init(&displays);
        writer_message(&w, &frame, MSG_EXECUTED, 1, 1);
        write_key(&w, "error");
        write_map(&w, 3);
        write_key(&w, "name");
        write_text(&w, "E");
        write_key(&w, "message");
        write_text(&w, "");
        write_key(&w, "traceback");
        write_text_n(&w, text, LIMIT_TRACEBACK + over);
        assert_int_equal(writer_finish(&w), 0);
        assert_int_equal(decode_executed(&frame, &executed, &displays) < 0, over);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_update),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_too_many_bytes),
        cmocka_unit_test(test_many_nodes_together),
        cmocka_unit_test(test_depth_leaves_room_for_the_record),
        cmocka_unit_test(test_executed_of_nothing),
        cmocka_unit_test(test_executed_with_a_long_traceback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
