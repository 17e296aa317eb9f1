/* Without the C library, as the loader is. */
#include <cpuid.h>
#include <elf.h>

#include "guest/memory/memory.h"

#define NUMBER_OF(parts, type) ((uint64_t)(parts) * sizeof(type))

uint64_t memory_index_size(const MemoryHead *head)
{
    if (head->files > MEMORY_FILES_MAX || head->mappings > MEMORY_MAPPINGS_MAX ||
        head->runs > MEMORY_RUNS_MAX || head->text > MEMORY_TEXT_MAX)
        return 0;

    uint64_t size = sizeof(*head) + NUMBER_OF(head->files, MemoryFile) +
                    NUMBER_OF(head->mappings, MemoryMapping) + NUMBER_OF(head->runs, MemoryRun) + head->text;
    return (size + MEMORY_PAGE - 1) / MEMORY_PAGE * MEMORY_PAGE;
}

MemoryIndex memory_index(const void *bytes)
{
    const MemoryHead *head = bytes;
    const MemoryFile *files = (const MemoryFile *)(head + 1);
    const MemoryMapping *mappings = (const MemoryMapping *)(files + head->files);
    const MemoryRun *runs = (const MemoryRun *)(mappings + head->mappings);

    return (MemoryIndex){head, files, mappings, runs, (const char *)(runs + head->runs)};
}

static bool is_part(uint64_t start, uint64_t end)
{
    return start % MEMORY_PAGE == 0 && end % MEMORY_PAGE == 0 && start < end;
}

static bool is_in_user_space(const MemoryMapping *mapping)
{
    return mapping->start >= MEMORY_LOWEST && mapping->end <= MEMORY_END &&
           (mapping->end <= MEMORY_ROOM_START || mapping->start >= MEMORY_ROOM_END);
}

static bool has_file(const MemoryMapping *mapping)
{
    return mapping->kind >= MEMORY_FILE;
}

static bool has_runs(const MemoryMapping *mapping)
{
    return mapping->kind <= MEMORY_FILE;
}

static bool is_of_image(const MemoryHead *head, const MemoryMapping *mapping)
{
    uint64_t size = mapping->end - mapping->start;

    return mapping->kind == MEMORY_IMAGE && size <= head->image.size &&
           mapping->offset <= head->image.size - size;
}

static bool is_sound(const MemoryHead *head, const MemoryMapping *mapping)
{
    return is_part(mapping->start, mapping->end) && is_in_user_space(mapping) &&
           mapping->kind < MEMORY_KINDS && mapping->prot <= 7 && mapping->offset % MEMORY_PAGE == 0 &&
           mapping->offset <= INT64_MAX - (mapping->end - mapping->start) &&
           (mapping->kind != MEMORY_IMAGE || is_of_image(head, mapping)) &&
           (!has_file(mapping) || mapping->file < head->files) && (has_runs(mapping) || mapping->runs == 0);
}

static bool are_runs_sound(const MemoryMapping *mapping, const MemoryRun *runs)
{
    uint64_t at = mapping->start;

    for (uint32_t i = 0; i < mapping->runs; i++) {
        const MemoryRun *run = &runs[i];

        if (run->start < at || run->start >= mapping->end || run->size > mapping->end - run->start ||
            !is_part(run->start, run->start + run->size))
            return false;
        at = run->start + run->size;
    }
    return true;
}

/* Each path is one that begins at the root, or the name of a mapping of the kernel's, and ends. */
static bool is_text_sound(const MemoryIndex *index)
{
    const MemoryHead *head = index->head;

    if (head->text == 0 || index->text[head->text - 1] != '\0')
        return false;
    for (uint32_t i = 0; i < head->files; i++) {
        uint64_t path = index->files[i].path;

        if (path >= head->text || (index->text[path] != '/' && index->text[path] != '['))
            return false;
    }
    return true;
}

static bool is_mapped(const MemoryIndex *index, uint64_t at, unsigned prot)
{
    for (uint32_t i = 0; i < index->head->mappings; i++) {
        const MemoryMapping *mapping = &index->mappings[i];

        if (at >= mapping->start && at < mapping->end)
            return (mapping->prot & prot) == prot && mapping->kind != MEMORY_KERNEL;
    }
    return false;
}

const char *memory_check(const MemoryIndex *index)
{
    const MemoryHead *head = index->head;
    uint64_t at = 0, content = memory_index_size(head);
    uint32_t runs = 0;

    for (uint32_t i = 0; i < head->mappings; i++) {
        const MemoryMapping *mapping = &index->mappings[i];

        if (!is_sound(head, mapping) || mapping->start < at || mapping->runs > head->runs - runs ||
            !are_runs_sound(mapping, index->runs + runs))
            return "a mapping in it is none";
        at = mapping->end;
        runs += mapping->runs;
    }
    for (uint32_t i = 0; i < runs; i++)
        content += index->runs[i].size; /* of addresses that do not overlap */
    if (runs != head->runs || content != head->size || !is_text_sound(index))
        return "it is damaged";
    if (!is_mapped(index, head->entry, 5) || !is_mapped(index, head->stack - 8, 3) ||
        !is_mapped(index, head->thread, 3) || head->stack % 16 != 0)
        return "it has nowhere to go on";
    return NULL;
}

/* ---- what it fits ---- */

/* FNV-1a, of 64 bits: whoever could make two equal could also write the file. */
#define BASIS 0xcbf29ce484222325u
#define PRIME 0x100000001b3u

static uint64_t mix(uint64_t hash, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * PRIME;
    return hash;
}

#ifdef __x86_64__

/* The mask is for the second register, in which some leaves differ from one processor of a machine to the
 * next. */
static const struct {
    unsigned leaf, part, counts;
} leaves[] = {{0, 0, ~0u}, {1, 0, 0},      {7, 0, ~0u},    {7, 1, ~0u},         {0xd, 0, ~0u},
              {0xd, 1, 0}, {0x14, 0, ~0u}, {0x19, 0, ~0u}, {0x80000001, 0, ~0u}};

static uint64_t hash_processor(void)
{
    uint64_t hash = BASIS;

    for (size_t i = 0; i < sizeof(leaves) / sizeof(leaves[0]); i++) {
        unsigned r[4] = {0};

        __get_cpuid_count(leaves[i].leaf, leaves[i].part, &r[0], &r[1], &r[2], &r[3]);
        r[1] &= leaves[i].counts;
        hash = mix(hash, r, sizeof(r));
    }
    return hash;
}
#else
static uint64_t hash_processor(void)
{
    return 0;
}
#endif

uint64_t memory_hash(const void *bytes, size_t n)
{
    return mix(BASIS, bytes, n);
}

static uint64_t add_word(uint64_t sum, uint64_t word)
{
    return ((sum << 5 | sum >> 59) ^ word) * PRIME;
}

/* Several at a time: each step of one sum waits for the step before. */
uint64_t memory_sum(uint64_t sum, const void *bytes, size_t n)
{
    const uint64_t *words = bytes;
    uint64_t sums[4] = {sum, 1, 2, 3};
    size_t i = 0;

    for (; i + 4 <= n / sizeof(*words); i += 4)
        for (size_t j = 0; j < 4; j++)
            sums[j] = add_word(sums[j], words[i + j]);
    for (; i < n / sizeof(*words); i++)
        sums[0] = add_word(sums[0], words[i]);
    for (size_t j = 1; j < 4; j++)
        sums[0] = add_word(sums[0], sums[j]);
    return sums[0];
}

/* ---- files ---- */

#define ALIGNED(size) (((size) + 3) / 4 * 4)

/* Looks through the notes of `size` at `at`, as far as they are there. */
static bool has_id_note(const uint8_t *page, size_t n, uint64_t at, uint64_t size)
{
    uint64_t end = size < n && at < n - size ? at + size : n;

    while (at % 4 == 0 && at < end && end - at >= sizeof(Elf64_Nhdr)) {
        const Elf64_Nhdr *note = (const void *)(page + at);

        const uint8_t *name = (const void *)(note + 1);
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && end - at >= sizeof(*note) + 4 &&
            name[0] == 'G' && name[1] == 'N' && name[2] == 'U')
            return true;
        at += sizeof(*note) + ALIGNED((uint64_t)note->n_namesz) + ALIGNED((uint64_t)note->n_descsz);
    }
    return false;
}

static bool has_build_id(const uint8_t *page, size_t n)
{
    const Elf64_Ehdr *head = (const void *)page;

    if (n < sizeof(*head) || head->e_ident[EI_MAG0] != ELFMAG0 || head->e_ident[EI_MAG1] != ELFMAG1 ||
        head->e_ident[EI_MAG2] != ELFMAG2 || head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_phoff % 8 != 0)
        return false;
    for (uint64_t i = 0; i < head->e_phnum && head->e_phoff < n; i++) {
        const Elf64_Phdr *part = (const Elf64_Phdr *)(const void *)(page + head->e_phoff) + i;

        if ((const uint8_t *)(part + 1) > page + n)
            return false;
        if (part->p_type == PT_NOTE && has_id_note(page, n, part->p_offset, part->p_filesz))
            return true;
    }
    return false;
}

uint64_t memory_file_hash(const void *page, size_t n, const struct stat *st)
{
    uint64_t hash = memory_hash(page, n);

    return has_build_id(page, n) ? hash : mix(hash, &st->st_mtim, sizeof(st->st_mtim));
}

MemoryFit memory_fit(const void *vdso, size_t size)
{
    return (MemoryFit){.kernel = memory_hash(vdso, size), .processor = hash_processor()};
}
