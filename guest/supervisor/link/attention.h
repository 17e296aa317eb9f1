/* Attention: whether the controller wants the output of a call as it comes, and how much it takes now. */
#pragma once

#include "guest/supervisor/link/link.h"

typedef struct Attention {
    bool wanted;
    bool paid; /* a controller takes what was wanted */
    unsigned credit;
} Attention;

void attention_begin(Attention *attention, bool wanted);

/* Sends a piece of stream 1 or 2 of the call `id` as an event, where there is credit. */
void attention_output(Attention *attention, Link *link, uint64_t id, unsigned stream, const uint8_t *bytes,
                      size_t n);

/* The controller is gone, and with it events and credit that were under way. The first credit of the next one
 * resumes. */
void attention_lost(Attention *attention);
void attention_credit(Attention *attention, uint64_t count);

/* Returns whether more is to be read. Where nobody takes the output the writer waits. */
bool attention_takes(const Attention *attention);
