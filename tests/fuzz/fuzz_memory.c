/* The index of a file with memory, as hostile code in the sandbox may write it. What passes can be mapped
 * without touching the loader, and names only files that the index has. The bytes are the beginning of such a
 * file, too. */
#include <stdlib.h>
#include <string.h>

#include "guest/memory/memory.h"
#include "proto/base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(const MemoryIndex *index)
{
    const MemoryHead *head = index->head;
    const MemoryRun *run = index->runs;
    uint64_t at = 0;

    for (uint32_t i = 0; i < head->mappings; i++) {
        const MemoryMapping *mapping = &index->mappings[i];
        bool in_room = mapping->start < MEMORY_ROOM_END && mapping->end > MEMORY_ROOM_START;

        if (mapping->start < at || mapping->end <= mapping->start || mapping->end > MEMORY_END || in_room)
            abort();
        if (mapping->kind >= MEMORY_FILE && strlen(index->text + index->files[mapping->file].path) == 0)
            abort();
        for (uint32_t j = 0; j < mapping->runs; j++, run++)
            if (run->start < mapping->start || run->start + run->size > mapping->end)
                abort();
        at = mapping->end;
    }
}

static void identify(const uint8_t *data, size_t size)
{
    size_t n = MIN(size, MEMORY_PAGE);
    uint8_t *page = malloc(MAX(n, 1));

    if (!page)
        return;
    memcpy(page, data, n);
    memory_file_hash(page, n, &(struct stat){0});
    free(page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    MemoryHead head;

    identify(data, size);
    if (size < sizeof(head))
        return 0;
    memcpy(&head, data, sizeof(head));

    uint64_t whole = memory_index_size(&head);
    if (whole == 0 || whole > (1u << 20))
        return 0;

    uint8_t *bytes = calloc(1, whole);
    if (!bytes)
        return 0;
    memcpy(bytes, data, MIN(size, whole));
    MemoryIndex index = memory_index(bytes);
    if (!memory_check(&index))
        look(&index);
    free(bytes);
    return 0;
}
