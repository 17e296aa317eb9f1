#include "guest/supervisor/branch/unreported.h"

static Text written(const Output *output)
{
    return output->kept.size > 0 ? (Text){(const char *)buf_head(&output->kept), output->kept.size}
                                 : (Text){"", 0};
}

bool branch_say_unreported(const Branch *branch, MsgUnreported *ret)
{
    const StateChange *change = &branch->unreported;
    const Output *out = &branch->between[0], *err = &branch->between[1];

    *ret = (MsgUnreported){
        .epoch = branch->epoch,
        .lost = change->state == STATE_LOST,
        .checkpoint = change->state == STATE_ROLLED_BACK ? change->checkpoint : NO_UINT,
        .execution_count = change->execution_count,
        .calls = change->calls,
        .reason = text_of(change->reason),
        .not_restored = notes_say(&change->not_restored),
        .restored = notes_say(&branch->restored),
        .out = written(out),
        .err = written(err),
        .dropped = out->total - out->kept.size + err->total - err->kept.size,
    };
    return change->state != STATE_KEPT || branch->restored.n > 0 || out->total > 0 || err->total > 0;
}

void branch_take_unreported(Branch *branch, const MsgUnreported *said)
{
    StateChange *change = &branch->unreported;

    change->state = said->lost ? STATE_LOST : said->checkpoint != NO_UINT ? STATE_ROLLED_BACK : STATE_KEPT;
    change->checkpoint = uint_or(said->checkpoint, 0);
    change->execution_count = said->execution_count;
    change->calls = said->calls;
    reason_set(change->reason, "%.*s", (int)said->reason.size, said->reason.data);
    notes_add_all(&change->not_restored, &said->not_restored);
    notes_add_all(&branch->restored, &said->restored);
    branch_wrote(branch, 1, (const uint8_t *)said->out.data, said->out.size);
    branch_wrote(branch, 2, (const uint8_t *)said->err.data, said->err.size);
    branch->between[0].total += said->dropped;
}
