#include "guest/interpreter/allowance.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/base/proc.h"

#define MIB (INT64_C(1) << 20)

/* For what is not counted. The least is what the kernel needs to get by with while it frees the memory of a
 * process it has killed: with less it takes a second one, the interpreter. */
#define RESERVE_PART  8
#define RESERVE_LEAST (40 * MIB)

/* Beyond what cells may hold: what one gets when all is taken, how far that goes, and the work around them.
 */
#define CELL_LEAST  (2 * MIB)
#define CELL_EXCESS (8 * MIB)
#define WORK_EXCESS (16 * MIB)

/* A part of what is left may be given before the next look: what was given need not be there yet. */
#define CREDIT_PART 4

#define NEAR_PARTS 9
#define NEAR_WHOLE 10

static struct {
    int64_t memory;         /* bytes that cells may hold; 0: there is no limit */
    _Atomic int64_t limit;  /* now */
    _Atomic int64_t credit; /* may be given without a look */
    _Atomic bool scarce;    /* something has been refused */
} allowance;

void allowance_init(uint64_t memory)
{
    int64_t whole = (int64_t)MIN(memory, (uint64_t)INT64_MAX);

    /* The limit is 0, and the kernel is left to judge, in a sandbox that small. */
    allowance.memory = MAX(whole - MAX(whole / RESERVE_PART, RESERVE_LEAST), 0);
    allowance_end_cell();
}

int allowance_held(uint64_t *ret)
{
    ProcMemory memory;
    int r = proc_memory(&memory, 0);

    if (r == 0)
        *ret = memory.resident - MIN(memory.shared, memory.resident);
    return r;
}

static bool look(int64_t size)
{
    int64_t limit = atomic_load_explicit(&allowance.limit, memory_order_relaxed);
    int saved = errno;
    uint64_t held = 0;
    int r = allowance_held(&held);

    errno = saved;
    if (r < 0)
        return true; /* no descriptor is free, say: the kernel is left to judge */

    int64_t room = limit - (int64_t)held - size;
    atomic_store_explicit(&allowance.credit, MAX(room, 0) / CREDIT_PART, memory_order_relaxed);
    if (room < 0)
        atomic_store_explicit(&allowance.scarce, true, memory_order_relaxed);
    return room >= 0;
}

/* Threads may take the same credit twice: it is a part of the room, and what it was used for is seen at the
 * next look. */
bool allowance_has(size_t size)
{
    int64_t credit = atomic_load_explicit(&allowance.credit, memory_order_relaxed);

    if (allowance.memory == 0)
        return true;
    if (size > PTRDIFF_MAX)
        return false;
    if ((int64_t)size > credit)
        return look((int64_t)size);
    atomic_store_explicit(&allowance.credit, credit - (int64_t)size, memory_order_relaxed);
    return true;
}

static void set_limit(int64_t limit)
{
    atomic_store_explicit(&allowance.limit, limit, memory_order_relaxed);
}

/* Also takes back what has been given for the work around cells. */
static void use_rest(void)
{
    uint64_t held = 0;

    allowance_held(&held);
    int64_t least = (int64_t)held + CELL_LEAST;
    set_limit(MIN(MAX(least, allowance.memory), allowance.memory + CELL_EXCESS));
    atomic_store_explicit(&allowance.credit, 0, memory_order_relaxed);
    atomic_store_explicit(&allowance.scarce, least > allowance.memory, memory_order_relaxed);
}

void allowance_begin_cell(void)
{
    if (atomic_load_explicit(&allowance.scarce, memory_order_relaxed))
        use_rest();
    else
        set_limit(allowance.memory);
}

void allowance_end_cell(void)
{
    set_limit(allowance.memory + WORK_EXCESS);
}

uint64_t allowance_most(void)
{
    return allowance.memory == 0 ? 0 : (uint64_t)(allowance.memory + WORK_EXCESS);
}

static bool is_near(uint64_t bytes)
{
    return allowance.memory > 0 && bytes >= (uint64_t)allowance.memory / NEAR_WHOLE * NEAR_PARTS;
}

bool allowance_is_nearly_taken(uint64_t peak)
{
    uint64_t held;

    return is_near(peak) && allowance_held(&held) == 0 && is_near(held);
}
