#include "guest/supervisor/streams/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

/* Kernels before 6.3 do not know MFD_NOEXEC_SEAL; later ones may insist on it. */
static int create(void)
{
    int fd = memfd_create("limpet-output", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("limpet-output", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd < 0 ? -errno : fd;
}

/* Seals the size: a file that is cut is SIGBUS for whoever reads it. */
static int seal(int fd)
{
    if (ftruncate(fd, sizeof(Rings)) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return -errno;
    return 0;
}

static int choose_nonces(Rings *rings)
{
    for (size_t i = 0; i < ARRAY_SIZE(rings->ring); i++) {
        uint8_t *nonce = rings->ring[i].nonce;

        if (getrandom(nonce, RING_NONCE, 0) != RING_NONCE)
            return -EIO;
        nonce[0] = RING_NONCE_FIRST;
    }
    return 0;
}

int rings_open(RingReader readers[2], int *ret_fd)
{
    _cleanup_(closep) int fd = create();
    int r = fd < 0 ? fd : seal(fd);

    if (r < 0)
        return r;

    Rings *rings = mmap(NULL, sizeof(Rings), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (rings == MAP_FAILED)
        return -errno;
    r = choose_nonces(rings);
    if (r < 0) {
        munmap(rings, sizeof(Rings));
        return r;
    }
    rings_close(readers);
    for (size_t i = 0; i < ARRAY_SIZE(rings->ring); i++) {
        readers[i] = (RingReader){.ring = &rings->ring[i]};
        memcpy(readers[i].nonce, rings->ring[i].nonce, RING_NONCE);
    }
    *ret_fd = take_fd(&fd);
    return 0;
}

void rings_close(RingReader readers[2])
{
    if (readers[0].ring)
        munmap(container_of(readers[0].ring, Rings, ring[0]), sizeof(Rings));
    readers[0] = readers[1] = RING_READER_NULL;
}

uint64_t ring_head(const RingReader *reader)
{
    if (!reader->ring)
        return reader->taken;

    uint64_t head = atomic_load_explicit(&reader->ring->head, memory_order_acquire);

    return head - reader->taken <= RING_SPACE ? head : reader->taken;
}

uint64_t ring_position(const RingReader *reader, uint64_t marked, uint64_t head)
{
    if ((int64_t)(marked - reader->taken) <= 0)
        return reader->taken;
    return marked - reader->taken <= head - reader->taken ? marked : head;
}

/* `start` is that of the bytes before `until`: the writer changes it only while the ring is empty, and so not
 * before it has been told that they are taken. */
size_t ring_take(RingReader *reader, uint64_t until, uint8_t *ret, size_t room)
{
    size_t n = (size_t)MIN(until - reader->taken, (uint64_t)room);

    if (n == 0)
        return 0;

    uint64_t start = atomic_load_explicit(&reader->ring->start, memory_order_relaxed);
    size_t at = (size_t)((reader->taken - start) % RING_SPACE);
    size_t first = MIN(n, RING_SPACE - at);

    memcpy(ret, reader->ring->space + at, first);
    memcpy(ret + first, reader->ring->space, n - first);
    reader->taken += n;
    atomic_store_explicit(&reader->ring->tail, reader->taken, memory_order_release);
    return n;
}
