#include "guest/supervisor/branch/alarm.h"

#include <errno.h>
#include <sys/timerfd.h>

#include "proto/base/clock.h"

static void on_ready(LoopFile *file, uint32_t events)
{
    Alarm *alarm = container_of(file, Alarm, file);
    uint64_t expired;

    if (read(file->fd, &expired, sizeof(expired)) != (ssize_t)sizeof(expired))
        return;
    alarm->set = false;
    alarm->on_due(alarm);
}

int alarm_open(Alarm *alarm, Loop *loop, void (*on_due)(Alarm *))
{
    _cleanup_(closep) int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    int r;

    if (fd < 0)
        return -errno;
    r = loop_file_add(loop, &alarm->file, fd, EPOLLIN, on_ready);
    if (r < 0)
        return r;
    alarm->on_due = on_due;
    take_fd(&fd);
    return 0;
}

void alarm_close(Alarm *alarm)
{
    if (!alarm->file.loop)
        return;
    loop_file_remove(&alarm->file);
    close(alarm->file.fd);
}

void alarm_set(Alarm *alarm, uint64_t due)
{
    const struct itimerspec when = {.it_value = clock_timespec(due)};

    alarm->set = timerfd_settime(alarm->file.fd, TFD_TIMER_ABSTIME, &when, NULL) == 0;
}
