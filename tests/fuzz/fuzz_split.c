/* guest/interpreter/split.h reads what a client sends as code, before Python does. */
#include "guest/interpreter/split.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int nested = 0; nested < 2; nested++) {
        Split split = split_cell((const char *)data, size, nested);

        if (split.kind != SPLIT_TAIL)
            continue;
        /* The tail begins a line. */
        if (split.offset >= size || (split.offset > 0 && data[split.offset - 1] != '\n'))
            abort();
    }
    return 0;
}
