/* The C library's allocator, within the memory that the process may hold. Everything in the process finds
 * these functions first: Python, NumPy, libraries that a cell loads. The other half, __libc_malloc and so on,
 * is glibc's; a sanitizer has an allocator of its own. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include "guest/interpreter/allowance.h"
#include "proto/base/base.h"

#ifndef __SANITIZE_ADDRESS__
#pragma GCC visibility push(default)

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static bool is_refused(size_t size)
{
    if (allowance_has(size))
        return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return is_refused(size) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes))
        bytes = SIZE_MAX;
    return is_refused(bytes) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *block, size_t size)
{
    size_t before = block ? malloc_usable_size(block) : 0;

    return size > before && is_refused(size - before) ? NULL : __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size)
{
    return is_refused(size) ? NULL : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **ret, size_t alignment, size_t size)
{
    if (alignment % sizeof(void *) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0)
        return EINVAL;

    int saved = errno;
    void *block = memalign(alignment, size);
    errno = saved;
    if (!block)
        return ENOMEM;
    *ret = block;
    return 0;
}

#endif
