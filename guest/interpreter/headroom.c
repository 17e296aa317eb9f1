#include "guest/interpreter/headroom.h"

#include <sys/resource.h>

#include "proto/base/base.h"

#define PART    16u
#define MAXIMUM ((rlim_t)16 << 20)

static struct {
    rlim_t whole, kept; /* soft limits: with what is kept, and without; 0: there is none */
    rlim_t hard;
} headroom;

void headroom_init(void)
{
    struct rlimit data;

    if (getrlimit(RLIMIT_DATA, &data) < 0 || data.rlim_cur == RLIM_INFINITY)
        return;
    headroom.hard = data.rlim_max;
    headroom.whole = data.rlim_cur;
    headroom.kept = data.rlim_cur - MIN(data.rlim_cur / PART, MAXIMUM);
}

/* Puts back a limit that a cell has set itself: rarely, since a look before would cost each cell as much
 * again. */
static void replace(rlim_t old, rlim_t new)
{
    struct rlimit data = {.rlim_cur = new, .rlim_max = headroom.hard}, before;

    if (headroom.whole == 0 || prlimit(0, RLIMIT_DATA, &data, &before) < 0)
        return;
    if (before.rlim_cur != old || before.rlim_max != headroom.hard)
        setrlimit(RLIMIT_DATA, &before);
}

void headroom_keep(void)
{
    replace(headroom.whole, headroom.kept);
}

void headroom_use(void)
{
    replace(headroom.kept, headroom.whole);
}
