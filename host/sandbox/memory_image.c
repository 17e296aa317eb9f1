#include "host/sandbox/memory_image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"

/* As much as is copied between two turns of the loop. */
#define PIECE ((size_t)1 << 20)

/* Bytes of all images, and of those in the making: templates of users may have loaded much, and as often as
 * they like. */
#define HELD_MAX ((uint64_t)1 << 30)

static uint64_t held;

MemoryImage *memory_image_ref(MemoryImage *image)
{
    if (image)
        image->references++;
    return image;
}

MemoryImage *memory_image_unref(MemoryImage *image)
{
    if (image && --image->references == 0) {
        held -= image->size;
        close_fd(&image->fd);
        free(image);
    }
    return NULL;
}

void memory_copy_cancel(MemoryCopy *copy)
{
    held -= copy->size;
    copy->size = 0;
    loop_timer_cancel(&copy->turn);
    close_fd(&copy->from);
    close_fd(&copy->to);
}

static void give_up(MemoryCopy *copy, int error)
{
    log_info("memory not shared", "reason=%s", strerror(-error));
    memory_copy_cancel(copy);
    copy->done(copy, NULL);
}

static int finish(MemoryCopy *copy)
{
    MemoryImage *image;

    if (fcntl(copy->to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        return -errno;
    image = calloc(1, sizeof(*image));
    if (!image)
        return -ENOMEM;
    *image = (MemoryImage){.references = 1, .fd = take_fd(&copy->to), .size = copy->size};
    copy->size = 0;
    memory_copy_cancel(copy);
    copy->done(copy, image);
    return 0;
}

static void on_turn(LoopTimer *timer)
{
    MemoryCopy *copy = container_of(timer, MemoryCopy, turn);
    ssize_t n = sendfile(copy->to, copy->from, NULL, MIN(PIECE, copy->left));
    int r = n < 0 ? -errno : 0;

    if (n == 0)
        r = -ENODATA; /* it was cut */
    if (r == 0)
        copy->left -= (uint64_t)n;
    if (r == 0)
        r = copy->left == 0 ? finish(copy) : loop_timer_set(copy->loop, timer, clock_now(), on_turn);
    if (r < 0)
        give_up(copy, r);
}

bool memory_copy_begin(MemoryCopy *copy, Loop *loop, int from,
                       void (*done)(MemoryCopy *copy, MemoryImage *image))
{
    struct stat st;

    if (copy->from >= 0 || fstat(from, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
        (uint64_t)st.st_size > HELD_MAX - held) {
        close(from);
        return false;
    }
    *copy = (MemoryCopy){.from = from,
                         .to = memfd_create("limpet-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING),
                         .size = (uint64_t)st.st_size,
                         .left = (uint64_t)st.st_size,
                         .loop = loop,
                         .done = done};
    held += copy->size;
    if (copy->to >= 0 && loop_timer_set(loop, &copy->turn, clock_now(), on_turn) == 0)
        return true;
    memory_copy_cancel(copy);
    return false;
}
