#include "proto/wire.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

/* Maps of up to so many keys are not worth sorting. */
#define PAIRWISE_KEYS 32u

typedef struct Key {
    uint32_t at, size;
} Key;

typedef struct Level {
    uint32_t left;      /* objects still to come */
    uint32_t first_key; /* in Validation.keys; meaningful when is_map */
    bool is_map;
} Level;

/* Keys that most messages need. They are on the stack, which may be that of a small thread. */
#define KEYS_AT_HAND 128u

/* A walk over the bytes. Keys of the maps that are open lie in `keys` as a stack, so that those of the
 * innermost map are always together at its top. */
typedef struct Validation {
    const uint8_t *bytes;
    size_t size, at;
    uint32_t nodes, depth, key_count;
    Level levels[LIMIT_DEPTH];
    Key *keys; /* `at_hand`, or LIMIT_KEYS on the heap */
    Key at_hand[KEYS_AT_HAND];
} Validation;

/* Class of an object, as its first byte says. */
typedef enum Class {
    CLASS_SCALAR,
    CLASS_STR,
    CLASS_BIN,
    CLASS_ARRAY,
    CLASS_MAP,
    CLASS_REFUSED,
} Class;

typedef struct Head {
    Class class;
    uint8_t length_bytes; /* bytes of big-endian length that follow; for scalars, bytes of value */
    uint8_t length;       /* when length_bytes is 0 */
} Head;

static Head read_head(uint8_t byte)
{
    /* 0xc0 to 0xdf: nil, never used, booleans, bin, ext, float, uint, int, fixext, str, array, map */
    static const Head heads[32] = {
        {CLASS_SCALAR, 0, 0},  {CLASS_REFUSED, 0, 0}, {CLASS_SCALAR, 0, 0},  {CLASS_SCALAR, 0, 0},
        {CLASS_BIN, 1, 0},     {CLASS_BIN, 2, 0},     {CLASS_BIN, 4, 0},     {CLASS_REFUSED, 0, 0},
        {CLASS_REFUSED, 0, 0}, {CLASS_REFUSED, 0, 0}, {CLASS_SCALAR, 4, 0},  {CLASS_SCALAR, 8, 0},
        {CLASS_SCALAR, 1, 0},  {CLASS_SCALAR, 2, 0},  {CLASS_SCALAR, 4, 0},  {CLASS_SCALAR, 8, 0},
        {CLASS_SCALAR, 1, 0},  {CLASS_SCALAR, 2, 0},  {CLASS_SCALAR, 4, 0},  {CLASS_SCALAR, 8, 0},
        {CLASS_REFUSED, 0, 0}, {CLASS_REFUSED, 0, 0}, {CLASS_REFUSED, 0, 0}, {CLASS_REFUSED, 0, 0},
        {CLASS_REFUSED, 0, 0}, {CLASS_STR, 1, 0},     {CLASS_STR, 2, 0},     {CLASS_STR, 4, 0},
        {CLASS_ARRAY, 2, 0},   {CLASS_ARRAY, 4, 0},   {CLASS_MAP, 2, 0},     {CLASS_MAP, 4, 0},
    };

    if (byte < 0x80 || byte >= 0xe0)
        return (Head){CLASS_SCALAR, 0, 0};
    if (byte < 0x90)
        return (Head){CLASS_MAP, 0, byte & 0x0f};
    if (byte < 0xa0)
        return (Head){CLASS_ARRAY, 0, byte & 0x0f};
    if (byte < 0xc0)
        return (Head){CLASS_STR, 0, byte & 0x1f};
    return heads[byte - 0xc0];
}

static uint64_t read_big_endian(const uint8_t *p, size_t n)
{
    uint64_t value = 0;

    for (size_t i = 0; i < n; i++)
        value = value << 8 | p[i];
    return value;
}

static int compare_keys(const Validation *check, Key a, Key b)
{
    if (a.size != b.size)
        return a.size < b.size ? -1 : 1;
    return memcmp(check->bytes + a.at, check->bytes + b.at, a.size);
}

static void sift_down(const Validation *check, Key *keys, size_t root, size_t n)
{
    for (;;) {
        size_t child = 2 * root + 1;

        if (child >= n)
            return;
        if (child + 1 < n && compare_keys(check, keys[child], keys[child + 1]) < 0)
            child++;
        if (compare_keys(check, keys[root], keys[child]) >= 0)
            return;
        Key swapped = keys[root];
        keys[root] = keys[child];
        keys[child] = swapped;
        root = child;
    }
}

/* Heapsort: in place, and no order of keys a sender picks makes it slow. */
static void sort_keys(const Validation *check, Key *keys, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sift_down(check, keys, i, n);
    for (size_t end = n; end-- > 1;) {
        Key largest = keys[0];
        keys[0] = keys[end];
        keys[end] = largest;
        sift_down(check, keys, 0, end);
    }
}

/* Returns whether a key comes twice. Few keys are compared each with each, which costs less than sorting
 * them: most differ in size already. */
static bool has_duplicate(const Validation *check, Key *keys, size_t n)
{
    if (n > PAIRWISE_KEYS) {
        sort_keys(check, keys, n);
        for (size_t i = 1; i < n; i++)
            if (compare_keys(check, keys[i - 1], keys[i]) == 0)
                return true;
        return false;
    }
    for (size_t i = 1; i < n; i++)
        for (size_t j = 0; j < i; j++)
            if (keys[i].size == keys[j].size && compare_keys(check, keys[i], keys[j]) == 0)
                return true;
    return false;
}

/* Forgets the keys of the map at `level`, which is complete. */
static int close_map(Validation *check, const Level *level)
{
    size_t n = check->key_count - level->first_key;

    check->key_count = level->first_key;
    return has_duplicate(check, check->keys + level->first_key, n) ? -EBADMSG : 0;
}

static int open_level(Validation *check, bool is_map, uint64_t items)
{
    uint64_t objects = is_map ? items * 2 : items;

    /* Every object takes a byte at least. */
    if (objects > check->size - check->at)
        return -EBADMSG;
    if (check->depth == LIMIT_DEPTH || objects > LIMIT_NODES)
        return -EMSGSIZE;
    check->levels[check->depth++] =
        (Level){.left = (uint32_t)objects, .first_key = check->key_count, .is_map = is_map};
    return 0;
}

static int add_key(Validation *check, size_t length)
{
    if (check->key_count == LIMIT_KEYS)
        return -EMSGSIZE;
    if (check->key_count == KEYS_AT_HAND && check->keys == check->at_hand) {
        Key *keys = malloc(LIMIT_KEYS * sizeof(*keys));

        if (!keys)
            return -ENOMEM;
        check->keys = memcpy(keys, check->at_hand, sizeof(check->at_hand));
    }
    check->keys[check->key_count++] = (Key){.at = (uint32_t)check->at, .size = (uint32_t)length};
    return 0;
}

static int take_string(Validation *check, Class class, uint64_t length, bool is_key)
{
    const uint8_t *text = check->bytes + check->at;

    if (length > check->size - check->at)
        return -EBADMSG;
    if (class == CLASS_STR && !utf8_valid(text, length))
        return -EBADMSG;
    if (is_key) {
        int r = add_key(check, length);

        if (r < 0)
            return r;
    }
    check->at += length;
    return 0;
}

static int take_object(Validation *check, bool is_key)
{
    Head head;
    uint64_t length;

    if (check->at == check->size)
        return -EBADMSG;
    if (++check->nodes > LIMIT_NODES)
        return -EMSGSIZE;
    head = read_head(check->bytes[check->at++]);
    if (head.class == CLASS_REFUSED || head.length_bytes > check->size - check->at)
        return -EBADMSG;
    if (is_key && head.class != CLASS_STR && head.class != CLASS_BIN)
        return -EBADMSG;
    length = head.length_bytes ? read_big_endian(check->bytes + check->at, head.length_bytes) : head.length;
    check->at += head.length_bytes;
    switch (head.class) {
    case CLASS_STR:
    case CLASS_BIN:
        return take_string(check, head.class, length, is_key);
    case CLASS_ARRAY:
    case CLASS_MAP:
        return open_level(check, head.class == CLASS_MAP, length);
    default:
        return 0;
    }
}

/* Leaves the containers that are complete. */
static int close_levels(Validation *check)
{
    while (check->depth > 0 && check->levels[check->depth - 1].left == 0) {
        const Level *level = &check->levels[--check->depth];
        int r = level->is_map ? close_map(check, level) : 0;

        if (r < 0)
            return r;
    }
    return 0;
}

static int walk(Validation *check)
{
    do {
        bool is_key = false;
        int r;

        if (check->depth > 0) {
            Level *level = &check->levels[check->depth - 1];
            is_key = level->is_map && level->left % 2 == 0;
            level->left--;
        }
        r = take_object(check, is_key);
        if (r == 0)
            r = close_levels(check);
        if (r < 0)
            return r;
    } while (check->depth > 0);
    return check->at == check->size ? 0 : -EBADMSG;
}

int wire_check(const void *bytes, size_t size)
{
    Validation check;
    int r;

    if (size > UINT32_MAX)
        return -EMSGSIZE;
    check.bytes = bytes;
    check.size = size;
    check.at = 0;
    check.nodes = check.depth = check.key_count = 0;
    check.keys = check.at_hand;
    r = walk(&check);
    if (check.keys != check.at_hand)
        free(check.keys);
    return r;
}
