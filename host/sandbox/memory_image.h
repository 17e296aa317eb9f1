/* Memory images: the memory of a spare in which everything is prepared, with which other sandboxes of its
 * kind begin. What they do not change they share. */
#pragma once

#include "proto/base/loop.h"

/* MemoryImage: a file in memory that nobody can change. */
typedef struct MemoryImage {
    unsigned references;
    int fd;
    uint64_t size; /* bytes */
} MemoryImage;

MemoryImage *memory_image_ref(MemoryImage *image);
/* Frees it when nobody else has it. NULL. */
MemoryImage *memory_image_unref(MemoryImage *image);

/* MemoryCopy: an image in the making. What a supervisor has passed is copied piece by piece, as hostile as it
 * may be. */
typedef struct MemoryCopy {
    LoopTimer turn;
    int from, to; /* -1: none is made */
    uint64_t size, left;
    Loop *loop;
    /* Hands over the image, which is whole; NULL: it cannot be had. */
    void (*done)(struct MemoryCopy *copy, MemoryImage *image);
} MemoryCopy;

#define MEMORY_COPY_NULL ((MemoryCopy){.from = -1, .to = -1})

/* Begins to copy `from`, which is taken. Returns false where a copy is under way, there can be none, or there
 * would be more than 1 GiB of all images. */
bool memory_copy_begin(MemoryCopy *copy, Loop *loop, int from,
                       void (*done)(MemoryCopy *copy, MemoryImage *image));
void memory_copy_cancel(MemoryCopy *copy);
