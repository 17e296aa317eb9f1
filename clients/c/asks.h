/* The questions of a call, answered. Those for a person go to on_input; there are no functions of the host
 * here.
 */
#pragma once

#include "clients/c/client.h"

/* The newest answers as they were sent. When the controller goes away before it has one, the question comes
 * again, and is answered again without asking anybody. Answers arrive in order and no more than LIMIT_ASKS
 * questions wait, so that an older one has arrived. */
typedef struct SentAnswers {
    struct {
        uint64_t ask;
        Buf message; /* empty: none */
    } sent[LIMIT_ASKS];
    size_t next;
} SentAnswers;

/* Answers an `ask` of the call. 0, or an error of the connection or of what the controller said. */
int client_answer(SentAnswers *answers, ClientCall *call, const LimpetRun *run, const Message *event);
void sent_answers_deinit(SentAnswers *answers);
