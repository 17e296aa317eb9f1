#include "host/sandbox/memory_image.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host/sandbox/sandbox.h"
#include "proto/base/log.h"

/* Bytes of all that are open or in the making: templates of users may have loaded much, and as often as they
 * like. */
#define HELD_MAX ((uint64_t)1 << 30)

/* Bytes of all files. Each controller makes its images anew, and sessions that are saved have older ones. */
#define KEPT_MAX ((uint64_t)8 << 30)

static_assert(MEMORY_IMAGE_ID_SIZE == INSTANCE_SIZE, "ids are made alike");

void memory_images_init(MemoryImages *images)
{
    list_init(&images->list);
}

/* Leaves their files: sandboxes that were left have them still. */
void memory_images_deinit(MemoryImages *images)
{
    MemoryImage *image;

    list_foreach (image, &images->list, MemoryImage, link) {
        close_fd(&image->fd);
        list_remove(&image->link);
        free(image);
    }
}

static void write_ids(Writer *w, const void *source)
{
    const MemoryImages *images = source;
    const MemoryImage *image;
    uint32_t n = 0;

    list_foreach (image, (List *)&images->list, MemoryImage, link)
        n++;
    write_array(w, n);
    list_foreach (image, (List *)&images->list, MemoryImage, link)
        write_text(w, image->id);
}

void memory_images_sweep(MemoryImages *images)
{
    const JobImages kept = {.images = {.write = write_ids, .source = images}};

    if (images->file_service)
        file_service_tell(images->file_service, JOB_SWEEP_IMAGES, &kept);
}

static MemoryImage *new_image(MemoryImages *images)
{
    MemoryImage *image = calloc(1, sizeof(*image));

    if (!image)
        return NULL;
    *image = (MemoryImage){.all = images, .references = 1, .fd = -1};
    list_append(&images->list, &image->link);
    return image;
}

MemoryImage *memory_image_ref(MemoryImage *image)
{
    if (image)
        image->references++;
    return image;
}

MemoryImage *memory_image_unref(MemoryImage *image)
{
    if (!image || --image->references > 0)
        return NULL;
    image->all->held -= image->size;
    close_fd(&image->fd);
    list_remove(&image->link);
    memory_images_sweep(image->all);
    free(image);
    return NULL;
}

/* The question has a reference of its own. */
static void on_answer(void *userdata, FileServiceAnswer *answer)
{
    MemoryImage *image = userdata;

    image->asked = false;
    image->fd = descriptors_take(&answer->descriptors, 0);
    image->gone = image->fd < 0;
    if (answer->problem) {
        log_info("memory not shared", "reason=%s", answer->problem->text);
    } else {
        image->all->held += answer->body->as_OPEN_IMAGE.bytes - image->size;
        image->size = answer->body->as_OPEN_IMAGE.bytes;
    }
    image->all->opened(image->all->userdata, image);
    memory_image_unref(image);
}

static bool ask(MemoryImage *image, JobKind kind, int passed)
{
    const JobImage asked = {.image = text_of(image->id), .bytes = image->size, .budget = KEPT_MAX};
    FileServiceClient *file_service = image->all->file_service;

    image->asked =
        (passed < 0 ? file_service_ask(file_service, NOBODYS, kind, &asked, on_answer, image)
                    : file_service_pass(file_service, NOBODYS, kind, &asked, passed, on_answer, image)) == 0;
    if (image->asked)
        memory_image_ref(image);
    return image->asked;
}

MemoryImage *memory_image_make(MemoryImages *images, int from)
{
    MemoryImage *image = NULL;
    struct stat st;

    if (fstat(from, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
        (uint64_t)st.st_size + images->held <= HELD_MAX)
        image = new_image(images);
    if (!image || !instance_make(image->id)) {
        close(from);
        return memory_image_unref(image);
    }
    image->size = (uint64_t)st.st_size;
    images->held += image->size;
    return ask(image, JOB_KEEP_IMAGE, from) ? image : memory_image_unref(image);
}

MemoryImage *memory_image_find(MemoryImages *images, Text id)
{
    MemoryImage *image;

    if (id.size != MEMORY_IMAGE_ID_SIZE - 1)
        return NULL;
    list_foreach (image, &images->list, MemoryImage, link)
        if (text_equal(id, image->id))
            return memory_image_ref(image);
    image = new_image(images);
    if (image)
        memcpy(image->id, id.data, id.size);
    return image;
}

bool memory_image_open(MemoryImage *image)
{
    return image->asked || (image->fd < 0 && !image->gone && ask(image, JOB_OPEN_IMAGE, -1));
}
