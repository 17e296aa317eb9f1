#include "clients/c/exporting/command_line.h"

#include <string.h>

#include "clients/c/exporting/object.h"

static int put(Buf *to, const char *text)
{
    return buf_append(to, text, strlen(text));
}

static bool is_safe(Text word)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";

    for (size_t i = 0; i < word.size; i++)
        if (!word.data[i] || !strchr(safe, word.data[i]))
            return false;
    return word.size > 0;
}

/* As a shell takes it for one word. */
static int put_word(Buf *to, Text word)
{
    int r;

    if (is_safe(word))
        return buf_append(to, word.data, word.size);
    r = put(to, "'");
    for (size_t i = 0; i < word.size && r == 0; i++)
        r = word.data[i] == '\'' ? put(to, "'\"'\"'") : buf_append(to, &word.data[i], 1);
    return r ? r : put(to, "'");
}

static int put_words(Buf *to, const msgpack_object *argv)
{
    size_t n = argv && argv->type == MSGPACK_OBJECT_ARRAY ? argv->via.array.size : 0;
    int r = put(to, "!");

    for (size_t i = 0; i < n && r == 0; i++) {
        r = put(to, i > 0 ? " " : "");
        if (r == 0)
            r = put_word(to, text_of_object(&argv->via.array.ptr[i]));
    }
    return r;
}

char *command_line(const msgpack_object_map *program)
{
    _cleanup_(buf_deinit) Buf line = BUF_NULL;
    const msgpack_object *command = map_find(program, "command");
    Text words = text_of_object(command);
    int r;

    if (words.data) {
        r = put(&line, memchr(words.data, '\n', words.size) ? "%%bash\n" : "!");
        if (r == 0)
            r = buf_append(&line, words.data, words.size);
    } else {
        r = put_words(&line, map_find(program, "argv"));
    }
    return r == 0 ? text_dup((Text){(const char *)buf_head(&line), line.size}) : NULL;
}
