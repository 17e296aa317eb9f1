/* Sessions that ended by themselves: the newest are known, and what is said of them. */
#include <stdio.h>

#include "host/session/end_record.h"
#include "tests/support/cmocka.h"

static Text name_of(char ret[16], unsigned n)
{
    return (Text){ret, (size_t)snprintf(ret, 16, "s%u", n)};
}

TEST(test_end_records_are_bounded)
{
    EndRecords all;
    char name[16], words[END_RECORD_WORDS];

    end_records_init(&all);
    for (unsigned n = 0; n < END_RECORDS_MAX + 2; n++) {
        EndRecord end_record = {.reason = "why", .time = 86400};

        name_of(end_record.name, n);
        for (int i = 0; i < 2; i++) /* one a name */
            end_record_add(&all, &end_record);
    }
    assert_null(end_record_find(&all, 0, name_of(name, 1)));
    assert_null(end_record_find(&all, 0, (Text){0}));
    end_record_words(words, end_record_find(&all, 0, name_of(name, 2)));
    assert_string_equal(words, "ended at 1970-01-02 00:00:00 UTC: why");
    end_records_deinit(&all);
}
