#include "guest/supervisor/executed.h"

#include <math.h>

static int take_displays(Displays *displays, const Value *rows, Problem *problem)
{
    for (uint32_t i = 0; i < value_count(rows); i++) {
        MsgDisplay display;
        int r;

        value_row(&display, MsgDisplay, rows, i);
        r = display_check(&display, problem);
        if (r < 0)
            return r;
        displays_add(displays, &display);
    }
    return 0;
}

int executed_decode(MsgCellExecuted *ret, Displays *displays, const msgpack_object_map *body,
                    Problem *problem)
{
    MsgCellExecuted said;
    int r = body_decode(&said, MsgCellExecuted, body, problem);

    if (r == 0)
        r = take_displays(displays, &said.displays, problem);
    if (r < 0)
        return r;
    said.cpu = isnan(said.cpu) ? 0 : MAX(said.cpu, 0.0);
    said.peak_memory = uint_or(said.peak_memory, 0);
    *ret = said;
    return 0;
}
