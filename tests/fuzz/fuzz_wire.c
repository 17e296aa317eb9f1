/* Bytes that wire_check lets through: msgpack-c unpacks them whole, and writes them again as something
 * wire_check lets through. */
#include <stdlib.h>

#include "proto/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    msgpack_zone zone;
    msgpack_object object;
    size_t offset = 0;
    Buf again = BUF_NULL;
    Writer w;

    if (wire_check(data, size) < 0)
        return 0;
    if (!msgpack_zone_init(&zone, 4096))
        return 0;
    if (msgpack_unpack((const char *)data, size, &offset, &zone, &object) != MSGPACK_UNPACK_SUCCESS)
        abort();
    writer_init(&w, &again);
    write_object(&w, &object);
    if (writer_finish(&w) < 0 || wire_check(buf_head(&again), again.size) < 0)
        abort();
    buf_deinit(&again);
    msgpack_zone_destroy(&zone);
    return 0;
}
