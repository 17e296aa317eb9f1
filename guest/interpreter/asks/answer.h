/* Answers: all that the channel brings during a cell. */
#pragma once

#include "guest/channel.h"
#include "guest/interpreter/pyref.h"

/* *ret_answer is a tuple (error, value), of which error is None or a tuple (name, message) of str. What
 * cannot be read as plain data is an error to be raised, too. 0, or a negative errno when it is no answer at
 * all. */
int answer_decode(const ChannelFrame *frame, uint64_t *ret_ask, PyObject **ret_answer);
