#include "host/files/retention.h"

static int by_end(const void *a, const void *b)
{
    double first = ((const Leftover *)a)->ended, second = ((const Leftover *)b)->ended;

    return (first > second) - (first < second);
}

size_t retention_choose(Leftovers *leftovers, const Retention *retention, double now)
{
    uint64_t bytes = 0;
    size_t n = 0;

    if (leftovers->n > 0)
        qsort(leftovers->entries, leftovers->n, sizeof(*leftovers->entries), by_end);
    for (size_t i = 0; i < leftovers->n; i++)
        bytes += leftovers->entries[i].bytes;
    for (; n < leftovers->n; n++) {
        const Leftover *oldest = &leftovers->entries[n];
        bool too_old = retention->keep_for > 0 && now - oldest->ended > retention->keep_for;

        if (!too_old && (retention->keep_size == 0 || bytes <= retention->keep_size))
            break;
        bytes -= oldest->bytes;
    }
    return n;
}
