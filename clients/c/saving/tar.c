#include "clients/c/saving/tar.h"

#include <errno.h>
#include <string.h>

#define AT_NAME     0u
#define AT_MODE     100u
#define AT_UID      108u
#define AT_GID      116u
#define AT_SIZE     124u
#define AT_TIME     136u
#define AT_SUM      148u
#define AT_TYPE     156u
#define AT_TARGET   157u
#define AT_MAGIC    257u
#define AT_PREFIX   345u
#define AT_PARTS    386u
#define AT_MORE     482u
#define AT_WHOLE    483u
#define TEXT_SIZE   100u
#define NUMBER_SIZE 12u
#define PART_SIZE   (2 * NUMBER_SIZE)

static const char magic[8] = "ustar  "; /* GNU's */

/* ---- writing ---- */

static void put_text(uint8_t *at, const char *text)
{
    memcpy(at, text, MIN(strlen(text), (size_t)TEXT_SIZE));
}

/* In octal digits; what does not fit in them, in base 256. */
static void put_number(uint8_t *at, size_t width, uint64_t value)
{
    bool octal = value < UINT64_C(1) << 3 * (width - 1);

    for (size_t i = octal ? width - 1 : width; i-- > 0; value >>= octal ? 3 : 8)
        at[i] = octal ? (uint8_t)('0' + (value & 7)) : (uint8_t)value;
    if (!octal)
        at[0] = 0x80;
}

static unsigned sum_of(const uint8_t *block)
{
    unsigned sum = 0;

    for (size_t i = 0; i < ARCHIVE_BLOCK; i++)
        sum += i >= AT_SUM && i < AT_TYPE ? ' ' : block[i];
    return sum;
}

static void put_sum(uint8_t *block)
{
    put_number(block + AT_SUM, 7, sum_of(block));
    block[AT_TYPE - 1] = ' ';
}

static void put_parts(uint8_t *at, size_t room, const Extent *parts, size_t n)
{
    for (size_t i = 0; i < MIN(n, room); i++) {
        put_number(at + i * PART_SIZE, NUMBER_SIZE, parts[i].start);
        put_number(at + i * PART_SIZE + NUMBER_SIZE, NUMBER_SIZE, parts[i].size);
    }
    at[room * PART_SIZE] = n > room;
}

static void begin(uint8_t block[static ARCHIVE_BLOCK], char type, const char *name, uint64_t size)
{
    memset(block, 0, ARCHIVE_BLOCK);
    put_text(block + AT_NAME, name);
    put_number(block + AT_MODE, 8, 0);
    put_number(block + AT_UID, 8, 0);
    put_number(block + AT_GID, 8, 0);
    put_number(block + AT_SIZE, NUMBER_SIZE, size);
    put_number(block + AT_TIME, NUMBER_SIZE, 0);
    block[AT_TYPE] = (uint8_t)type;
    memcpy(block + AT_MAGIC, magic, sizeof(magic));
}

static int append_padding(Buf *buf, size_t size)
{
    static const uint8_t zeros[ARCHIVE_BLOCK];

    return buf_append(buf, zeros, archive_padding(size));
}

/* A name that a header has no room for is in a block of its own before it. */
static int append_long(Buf *buf, char type, const char *text)
{
    size_t size = strlen(text) + 1;
    uint8_t block[ARCHIVE_BLOCK];
    int r;

    if (size <= TEXT_SIZE + 1)
        return 0;
    begin(block, type, "././@LongLink", size);
    put_sum(block);
    r = buf_append(buf, block, sizeof(block));
    if (r == 0)
        r = buf_append(buf, text, size);
    return r ? r : append_padding(buf, size);
}

/* Blocks for the parts that the header has no room for. */
static int append_more(Buf *buf, const Extent *parts, size_t n)
{
    int r = 0;

    for (size_t at = TAR_PARTS_HERE; r == 0 && at < n; at += TAR_PARTS_MORE) {
        uint8_t block[ARCHIVE_BLOCK] = {0};

        put_parts(block, TAR_PARTS_MORE, parts + at, n - at);
        r = buf_append(buf, block, sizeof(block));
    }
    return r;
}

/* The last part has no data: it says where the file ends. */
static int append_sparse(Buf *buf, uint8_t *block, const Member *member)
{
    size_t n = member->n_extents + 1;
    _cleanup_(freep) Extent *parts = calloc(n, sizeof(*parts));
    int r;

    if (!parts)
        return -ENOMEM;
    if (member->n_extents > 0)
        memcpy(parts, member->extents, member->n_extents * sizeof(*parts));
    parts[n - 1] = (Extent){member->size, 0};
    block[AT_TYPE] = TAR_SPARSE;
    put_parts(block + AT_PARTS, TAR_PARTS_HERE, parts, n);
    put_number(block + AT_WHOLE, NUMBER_SIZE, member->size);
    put_sum(block);
    r = buf_append(buf, block, ARCHIVE_BLOCK);
    return r ? r : append_more(buf, parts, n);
}

int tar_append(Buf *buf, const Member *member)
{
    static const char types[] = {
        [MEMBER_FILE] = TAR_FILE, [MEMBER_DIRECTORY] = TAR_DIRECTORY, [MEMBER_SYMLINK] = TAR_SYMLINK};
    bool is_file = member->kind == MEMBER_FILE;
    uint64_t stored = is_file ? member_stored(member) : 0;
    const char *target = member->target ? member->target : "";
    uint8_t block[ARCHIVE_BLOCK];
    int r = append_long(buf, TAR_LONG_TARGET, target);

    if (r == 0)
        r = append_long(buf, TAR_LONG_NAME, member->name);
    if (r < 0)
        return r;
    begin(block, types[member->kind], member->name, stored);
    put_text(block + AT_TARGET, target);
    put_number(block + AT_MODE, 8, member->mode & 07777);
    put_number(block + AT_TIME, NUMBER_SIZE, member->modified > 0 ? (uint64_t)member->modified : 0);
    if (is_file && stored != member->size)
        return append_sparse(buf, block, member);
    put_sum(block);
    return buf_append(buf, block, sizeof(block));
}

/* ---- reading ---- */

static int get_wide(const uint8_t *at, size_t width, uint64_t *ret)
{
    uint64_t value = 0;

    for (size_t i = 1; i < width; i++) {
        if (value > INT64_MAX >> 8)
            return -EBADMSG;
        value = value << 8 | at[i];
    }
    *ret = value;
    return 0;
}

static int get_number(const uint8_t *at, size_t width, uint64_t *ret)
{
    uint64_t value = 0;
    size_t i = 0;

    if (at[0] == 0x80)
        return get_wide(at, width, ret);
    for (; i < width && at[i] >= '0' && at[i] <= '7'; i++)
        value = value << 3 | (at[i] - '0');
    for (; i < width; i++)
        if (at[i] != '\0' && at[i] != ' ')
            return -EBADMSG;
    *ret = value;
    return 0;
}

static void get_text(char ret[static TEXT_SIZE + 1], const uint8_t *at)
{
    memcpy(ret, at, TEXT_SIZE);
    ret[TEXT_SIZE] = '\0';
}

int tar_parse(TarHeader *ret, const uint8_t block[static ARCHIVE_BLOCK])
{
    uint64_t sum, mode, unused;

    if (memcmp(block + AT_MAGIC, magic, sizeof(magic)) != 0 || get_number(block + AT_SUM, 8, &sum) < 0 ||
        sum != sum_of(block) || get_number(block + AT_MODE, 8, &mode) < 0 ||
        get_number(block + AT_UID, 8, &unused) < 0 || get_number(block + AT_GID, 8, &unused) < 0 ||
        get_number(block + AT_SIZE, NUMBER_SIZE, &ret->size) < 0 ||
        get_number(block + AT_TIME, NUMBER_SIZE, &ret->modified) < 0)
        return -EBADMSG;
    ret->type = (char)block[AT_TYPE];
    if (ret->type != TAR_SPARSE && block[AT_PREFIX] != '\0')
        return -EBADMSG;
    ret->mode = (unsigned)mode & 07777;
    get_text(ret->name, block + AT_NAME);
    get_text(ret->target, block + AT_TARGET);
    return 0;
}

int tar_parse_size(uint64_t *ret, const uint8_t block[static ARCHIVE_BLOCK])
{
    return get_number(block + AT_WHOLE, NUMBER_SIZE, ret);
}

int tar_parse_parts(Extent *ret, const uint8_t block[static ARCHIVE_BLOCK], bool more, bool *ret_more)
{
    const uint8_t *at = more ? block : block + AT_PARTS;
    size_t room = more ? TAR_PARTS_MORE : TAR_PARTS_HERE;
    int n = 0;

    for (size_t i = 0; i < room; i++) {
        const uint8_t *part = at + i * PART_SIZE;

        if (part[0] == '\0')
            continue;
        if (get_number(part, NUMBER_SIZE, &ret[n].start) < 0 ||
            get_number(part + NUMBER_SIZE, NUMBER_SIZE, &ret[n].size) < 0)
            return -EBADMSG;
        n++;
    }
    *ret_more = at[room * PART_SIZE] != 0;
    return n;
}
