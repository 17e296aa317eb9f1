/* guest/supervisor/call/result.h: what is taken from the interpreter, and what it adds up to. */
#include <stdio.h>
#include <string.h>

#include "guest/supervisor/call/result.h"
#include "tests/support/cmocka.h"

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

TEST(test_too_many_bytes)
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

TEST(test_many_nodes_together)
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

TEST(test_depth_leaves_room_for_the_record)
{
    _cleanup_(displays_deinit) Displays displays;
    _cleanup_(buf_deinit) Buf shallow = BUF_NULL, deep = BUF_NULL;

    displays_init(&displays);
    make_nested(&shallow, 10, 0);
    make_nested(&deep, 25, 0);
    assert_true(add_frame(&displays, &shallow));
    assert_false(add_frame(&displays, &deep));
}
