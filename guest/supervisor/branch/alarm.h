/* A one-shot timer for times so near that a timer of the loop would cost too much: with that the loop's every
 * wait sets the clock of the processor anew, which takes longer than a short call. This one is set once, and
 * left. */
#pragma once

#include "proto/base/loop.h"

typedef struct Alarm Alarm;

struct Alarm {
    LoopFile file;
    bool set;
    void (*on_due)(Alarm *alarm);
};

/* Not set. 0 or a negative errno. */
int alarm_open(Alarm *alarm, Loop *loop, void (*on_due)(Alarm *));
void alarm_close(Alarm *alarm); /* also one that was never opened */

/* For clock_now() nanoseconds. */
void alarm_set(Alarm *alarm, uint64_t due);
