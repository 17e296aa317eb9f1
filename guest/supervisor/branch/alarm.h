/* An alarm: a one-shot timer for times that are near. A timer of the loop would cost too much there: with
 * one, every wait of the loop sets the processor's clock anew, which takes longer than a short call. An alarm
 * is set once and left. */
#pragma once

#include "proto/base/loop.h"

typedef struct Alarm Alarm;

struct Alarm {
    LoopFile file;
    bool set;
    void (*on_due)(Alarm *alarm);
};

/* Opens an alarm that is not set. 0 or a negative errno. */
int alarm_open(Alarm *alarm, Loop *loop, void (*on_due)(Alarm *));
void alarm_close(Alarm *alarm); /* an alarm that was never opened, too */

/* `due`: clock_now() nanoseconds. */
void alarm_set(Alarm *alarm, uint64_t due);
