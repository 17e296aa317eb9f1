/* Memory images: the memory of a spare in which everything is prepared, with which other sandboxes of its
 * kind begin. What they do not change they share, and need not write when they are saved: the file service
 * keeps an image for as long as a sandbox has begun with it. */
#pragma once

#include "host/file_service/client/file_service_client.h"
#include "proto/base/list.h"

typedef struct MemoryImage MemoryImage;

/* MemoryImages: all there are, also in the making, and those that only saved sandboxes have. */
typedef struct MemoryImages {
    FileServiceClient *file_service; /* NULL: it has ended, and what there is stays */
    List list;
    uint64_t held; /* bytes of those that are open, or in the making */
    /* Told once an image that was asked for is open, or cannot be. */
    void (*opened)(void *userdata, const MemoryImage *image);
    void *userdata;
} MemoryImages;

#define MEMORY_IMAGE_ID_SIZE 17 /* random digits */

struct MemoryImage {
    MemoryImages *all;
    List link;
    unsigned references;
    char id[MEMORY_IMAGE_ID_SIZE]; /* names the file of the file service */
    int fd;                        /* a file in memory that nobody can change; -1: it is not open */
    bool asked;                    /* the file service has been asked for it, and has not answered */
    bool gone;                     /* it cannot be had */
    uint64_t size;                 /* bytes; 0: an earlier controller has made it, and it was never open */
};

void memory_images_init(MemoryImages *images);
void memory_images_deinit(MemoryImages *images);

/* Removes the files of all images but these. */
void memory_images_sweep(MemoryImages *images);

/* Has the file `from`, as hostile as it may be, made one, and takes the file over. `opened` is told. NULL
 * where it cannot be, or more than 1 GiB of all images would be open. */
MemoryImage *memory_image_make(MemoryImages *images, int from);

/* Finds the image of that id, which an earlier controller may have made and is not open then. A reference;
 * NULL where that is no id. */
MemoryImage *memory_image_find(MemoryImages *images, Text id);

/* Asks for one that is not open, unless it is gone. Returns whether `opened` will be told. */
bool memory_image_open(MemoryImage *image);

MemoryImage *memory_image_ref(MemoryImage *image);
/* Removes it when nobody else has it. NULL. */
MemoryImage *memory_image_unref(MemoryImage *image);
