/* Journals in which something else than a controller has written: entries that make no sense are cut off, and
 * the rest can be used. */
#include <assert.h>
#include <string.h>

#include "host/config/session_options.h"
#include "host/files/index.h"
#include "host/journal/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use_files(const msgpack_object_array *files)
{
    Index index;

    index_init(&index, 1000, 1 << 20);
    baseline_read(&index, files);
    index_deinit(&index);
}

static void use_options(const msgpack_object_map *map)
{
    SessionOptions options _cleanup_(session_options_deinit) = {0};
    Problem problem = PROBLEM_NULL;

    if (session_options_read(&options, map, &problem) < 0 && problem.code == ERR_NONE)
        abort();
}

/* A name that is made a path stays below the directory it is for. */
static void check_name(Text name)
{
    if (name.size == 0 || name.data[0] == '.' || memchr(name.data, '/', name.size) ||
        memchr(name.data, '\0', name.size))
        abort();
}

static int on_entry(void *userdata, const void *bytes, size_t size)
{
    Problem problem = PROBLEM_NULL;
    JournalEntry entry;

    if (journal_entry_decode(&entry, bytes, size, &problem) < 0)
        return -1;
    if (entry.kind == ENTRY_FILES)
        use_files(entry.files);
    if (entry.kind == ENTRY_SESSION) {
        check_name(entry.session.directory);
        check_name(entry.session.link);
        use_options(entry.session.options.map);
    }
    journal_entry_deinit(&entry);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (journal_parse(data, size, on_entry, NULL) > size)
        abort();
    return 0;
}
