/* Answer: what a public function hands to its caller, and behind it the reply that its strings point into. */
#pragma once

#include "clients/c/client.h"

/* Reads the body of a reply into the caller's struct, with the memory of the arena. */
typedef int AnswerRead(void *value, const msgpack_object_map *body, Arena *arena, Problem *problem);

/* client_call(), and its reply as a struct of `size` bytes, zeroed before `read`. *ret is freed with
 * answer_free(). */
int answer_call(LimpetClient *client, ClientCall *call, size_t size, AnswerRead *read, void **ret);
void answer_free(void *value);

/* The reply as one JSON object, to be freed with free(); NULL when out of memory. */
char *answer_json(const void *value);
