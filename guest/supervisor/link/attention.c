#include "guest/supervisor/link/attention.h"

/* Credit that is kept back while the call runs, so that what pipes and rings hold at its end can still be
 * sent. For each of two streams that is twice what an event takes, and up to three events where they follow
 * each other. */
#define CREDIT_RESERVE (3 * 2)

void attention_begin(Attention *attention, bool wanted)
{
    *attention = (Attention){.wanted = wanted, .paid = wanted, .credit = LIMIT_CREDIT};
}

void attention_output(Attention *attention, Link *link, uint64_t id, unsigned stream, const uint8_t *bytes,
                      size_t n)
{
    const MsgOutput output = {.stream = stream, .data = {(const char *)bytes, n}};

    if (attention->paid && attention->credit > 0 && link_has_room(link) &&
        link_say(link, MSG_OUTPUT, id, MsgOutput, &output) == 0)
        attention->credit--;
}

void attention_lost(Attention *attention)
{
    attention->paid = false;
    attention->credit = 0;
}

void attention_credit(Attention *attention, uint64_t count)
{
    attention->paid = attention->wanted;
    attention->credit = (unsigned)MIN(count, LIMIT_CREDIT - attention->credit) + attention->credit;
}

bool attention_takes(const Attention *attention)
{
    return !attention->paid || attention->credit > CREDIT_RESERVE;
}
