/* The small vocabulary every C file here is written in: ownership, cleanup, containers.
 *
 * Names carry lifetime and direction. init/deinit: embedded objects. new/free: heap objects; free accepts
 * NULL and returns NULL. open/close: resources with I/O. ret_x: out parameter, last, untouched on failure.
 * Functions return 0, or a negative errno; where a user must read the reason they fill a Problem as well. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(fn)  __attribute__((cleanup(fn)))
#define _printf_(f, a) __attribute__((format(printf, f, a)))
#define ARRAY_SIZE(a)  (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)      ((a) < (b) ? (a) : (b))
#define MAX(a, b)      ((a) > (b) ? (a) : (b))

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Moves ownership out of a variable: the variable is NULL (or -1 for take_fd) afterwards. */
#define take(p)                                                                                              \
    __extension__({                                                                                          \
        __typeof__(p) taken_ = (p);                                                                          \
        (p) = NULL;                                                                                          \
        taken_;                                                                                              \
    })

static inline int take_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

/* DEFINE_CLEANUP(Session *, session_free) makes session_freep, for _cleanup_(session_freep). */
#define DEFINE_CLEANUP(type, fn)                                                                             \
    static inline void fn##p(type *p)                                                                        \
    {                                                                                                        \
        if (*p)                                                                                              \
            fn(*p);                                                                                          \
    }

static inline void freep(void *p)
{
    free(*(void **)p);
}

static inline void closep(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

/* Closes *fd when open and marks it closed. */
static inline void close_fd(int *fd)
{
    closep(fd);
    *fd = -1;
}
