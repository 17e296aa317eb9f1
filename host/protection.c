#include "host/protection.h"

#include "host/envelope.h"

static const Field rolled_back_fields[] = {
    FIELD(FIELD_TEXT, RolledBack, checkpoint, true, LIMIT_SESSION_NAME),
    FIELD(FIELD_UINT, RolledBack, execution_count, true, 0),
};

int rolled_back_decode(RolledBack *ret, const msgpack_object_map *body, Problem *problem)
{
    return fields_decode(ret, rolled_back_fields, ARRAY_SIZE(rolled_back_fields), body, problem);
}

void rolled_back_write(Writer *w, const RolledBack *rolled_back)
{
    write_map(w, 2);
    write_optional(w, "checkpoint", rolled_back->checkpoint);
    write_key(w, "execution_count");
    write_uint(w, rolled_back->execution_count);
}

static const Field protection_fields[] = {
    FIELD(FIELD_TEXT, StateProtection, level, true, 16),
    FIELD(FIELD_OBJECT, StateProtection, execution_count, false, 0),
    FIELD(FIELD_TEXT, StateProtection, reason, false, PROBLEM_TEXT_MAX),
};

#define UNKNOWN "the sandbox did not tell"

const StateProtection protection_unknown = {
    .level = {"none", sizeof("none") - 1},
    .reason = {UNKNOWN, sizeof(UNKNOWN) - 1},
};

int state_protection_decode(StateProtection *ret, const msgpack_object_map *body, Problem *problem)
{
    int r = fields_decode(ret, protection_fields, ARRAY_SIZE(protection_fields), body, problem);

    if (r < 0)
        return r;
    if ((!text_equal(ret->level, "checkpoint") && !text_equal(ret->level, "none")) ||
        (ret->execution_count && ret->execution_count->type != MSGPACK_OBJECT_POSITIVE_INTEGER))
        return problem_set(problem, ERR_BAD_REQUEST, "`state_protection` is malformed");
    return 0;
}

void state_protection_write(Writer *w, const StateProtection *protection)
{
    write_map(w, 3);
    write_optional(w, "level", protection->level);
    write_key(w, "execution_count");
    write_object(w, protection->execution_count);
    write_optional(w, "reason", protection->reason);
}
