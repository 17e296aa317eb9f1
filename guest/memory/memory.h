/* The memory of a frozen copy in a file, from which another process becomes it: in another container, and
 * after this one has ended.
 *
 *   head | files | mappings | runs | text | up to a page | the contents of the runs, one after the other
 *
 * The interpreter writes it (guest/interpreter/checkpoint/keep.c). The loader (loader.c), a program at an
 * address of its own, checks it (check.c), maps every mapping where it was, reads the contents, and calls a
 * function there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define MEMORY_PAGE 4096u

/* The sum is computed of pieces of this size, and of a last one that may be smaller. */
#define MEMORY_PIECE ((size_t)256 << 10)

/* Mark of the format. A file is not meant to be read by another version of Limpet: the mappings say whose it
 * is. */
#define MEMORY_MAGIC "limpet memory 3"

/* Addresses that no process uses on its own: below are programs that are not relocated and what sanitizers
 * map, above are those that are relocated, libraries and stacks. */
#define MEMORY_ROOM_START ((uint64_t)0x180000000000)
#define MEMORY_ROOM_SIZE  ((uint64_t)1 << 30)
#define MEMORY_ROOM_END   (MEMORY_ROOM_START + MEMORY_ROOM_SIZE)

/* In the room, behind the loader. */
#define MEMORY_INDEX_START (MEMORY_ROOM_START + ((uint64_t)256 << 20))
#define MEMORY_ASIDE_START (MEMORY_ROOM_START + ((uint64_t)768 << 20))

/* Bounds of user space. */
#define MEMORY_LOWEST 0x10000u
#define MEMORY_END    ((uint64_t)0x7ffffffff000)

#define MEMORY_FILES_MAX    16384u
#define MEMORY_MAPPINGS_MAX 65536u
#define MEMORY_RUNS_MAX     (1u << 20)
#define MEMORY_TEXT_MAX     (1u << 20)

/* Hashes of surroundings that have to be as they were. Programs and libraries have chosen their code by the
 * processor, and know where in the kernel's own mapping its functions are. */
typedef struct MemoryFit {
    uint64_t kernel, processor;
} MemoryFit;

/* Names this start of the machine. */
#define MEMORY_BOOT_ID "/proc/sys/kernel/random/boot_id"

/* The memory image with which the process began, another file of this kind: its pages that have not changed
 * are not in the file. */
typedef struct MemoryImage {
    uint64_t size; /* of the whole image; 0: there is none */
    uint64_t hash; /* of its first page, which no other image has */
} MemoryImage;

typedef struct MemoryHead {
    char magic[16];
    uint64_t size; /* of the whole file */
    MemoryFit fit;
    MemoryImage image;
    uint64_t boot;   /* hash of MEMORY_BOOT_ID: until it changes, what was written is there */
    uint64_t sum;    /* memory_sum() of all that follows the head */
    uint64_t clock;  /* CLOCK_MONOTONIC, from which deadlines in the memory count */
    uint64_t thread; /* the thread pointer */
    uint64_t entry;  /* void entry(int channel): never returns */
    uint64_t stack;  /* on which it is called */
    uint32_t files, mappings, runs, text;
} MemoryHead;

/* A file that is mapped, or one of the kernel's own mappings. */
typedef struct MemoryFile {
    uint64_t path; /* in the text */
    uint64_t size;
    uint64_t hash; /* memory_file_hash() */
} MemoryFile;

typedef enum MemoryKind {
    MEMORY_ANONYMOUS,
    MEMORY_STACK,  /* that grows */
    MEMORY_SHARED, /* without a file; nobody else has it */
    MEMORY_IMAGE,  /* of the image */
    MEMORY_FILE,
    MEMORY_SHARED_FILE,
    MEMORY_KERNEL, /* its own, such as [vdso]: it is moved there */
    MEMORY_KINDS,
} MemoryKind;

/* Advice given to madvise() for a mapping. */
enum { MEMORY_HUGE = 1, MEMORY_SMALL = 2, MEMORY_WIPED = 4 /* in a fork */ };

typedef struct MemoryMapping {
    uint64_t start, end, offset;
    uint32_t file;
    uint32_t runs; /* so many of the runs are of it; those of earlier mappings come before them */
    uint8_t kind;
    uint8_t prot; /* as mmap() has it */
    uint8_t advice;
    uint8_t zero[5];
} MemoryMapping;

/* Pages whose content is in the file. All others are zero, or as in the file or image that is mapped. */
typedef struct MemoryRun {
    uint64_t start, size;
} MemoryRun;

/* An index that was read, or is made. */
typedef struct MemoryIndex {
    const MemoryHead *head;
    const MemoryFile *files;
    const MemoryMapping *mappings;
    const MemoryRun *runs;
    const char *text;
} MemoryIndex;

/* Bytes before the contents; 0 where a number in the head is over its limit. */
uint64_t memory_index_size(const MemoryHead *head);

/* Finds the parts in `bytes`, which has memory_index_size() of them. */
MemoryIndex memory_index(const void *bytes);

/* Checks that each mapping can be made as it says, in any process that has nothing but the room. Returns why
 * not, or NULL. The author of the file may be hostile. */
const char *memory_check(const MemoryIndex *index);

uint64_t memory_hash(const void *bytes, size_t n);

/* Returns a hash of what tells a file from others of its path and size: its first page, where programs and
 * libraries have the id of their build, or where there is no such id the time of its last change, too. */
uint64_t memory_file_hash(const void *page, size_t n, const struct stat *st);

/* Goes on with the sum of the pieces before; `n` is a multiple of 8. */
uint64_t memory_sum(uint64_t sum, const void *bytes, size_t n);

/* Computes the hashes of this process, whose vDSO is there. */
MemoryFit memory_fit(const void *vdso, size_t size);
