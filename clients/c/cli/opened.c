#include "clients/c/cli/opened.h"

#include <string.h>

#include "clients/c/json.h"

static void print_text(const char *key, const char *text)
{
    const msgpack_object object = {.type = MSGPACK_OBJECT_STR,
                                   .via.str = {.ptr = text, .size = (uint32_t)strlen(text)}};
    _cleanup_(buf_deinit) Buf json = BUF_NULL;

    if (json_write(&json, &object, JSON_PATH) == 0)
        printf("\"%s\": %.*s, ", key, (int)json.size, (const char *)buf_head(&json));
}

static void print_json(const LimpetOpened *opened)
{
    putchar('{');
    print_text("session", opened->session);
    print_text("instance", opened->instance);
    print_text("engine", opened->engine);
    printf("\"created\": %s}\n", opened->created ? "true" : "false");
}

void opened_print(const LimpetOpened *opened, bool json)
{
    if (json)
        print_json(opened);
    else
        printf("opened %s (%s)\n", opened->session, opened->engine);
}
