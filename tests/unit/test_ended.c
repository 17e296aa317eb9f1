/* Records of sessions that have ended: another controller has them too, as long as they may be asked for. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/tree.h"
#include "host/journal/ended.h"
#include "proto/base/clock.h"
#include "tests/support/cmocka.h"

static char state_dir[64], ended_dir[80];
static Paths paths;

/* Parts of a controller for ended sessions. */
typedef struct House {
    Loop *loop;
    Sessions sessions;
    Calls calls;
    Ended ended;
} House;

static House *house_new(void)
{
    House *house = calloc(1, sizeof(*house));

    assert_non_null(house);
    assert_int_equal(loop_new(&house->loop), 0);
    house->calls.loop = house->loop;
    house->ended = (Ended){.paths = &paths,
                           .loop = house->loop,
                           .calls = &house->calls,
                           .end_records = &house->sessions.end_records};
    calls_init(&house->calls);
    ended_init(&house->ended);
    end_records_init(&house->sessions.end_records);
    return house;
}

static void house_end(House *house)
{
    calls_deinit(&house->calls);
    ended_deinit(&house->ended);
    end_records_deinit(&house->sessions.end_records);
    loop_free(house->loop);
    free(house);
}

static int set_up(void **state)
{
    strcpy(state_dir, "/tmp/limpet-test-XXXXXX");
    assert_non_null(mkdtemp(state_dir));
    snprintf(ended_dir, sizeof(ended_dir), "%s/ended", state_dir);
    paths = (Paths){.ended = ended_dir};
    *state = house_new();
    return 0;
}

static int tear_down(void **state)
{
    house_end(*state);
    assert_int_equal(remove_path(state_dir), 0);
    return 0;
}

static void run_id_of(char ret[LIMIT_RUN_ID + 1], unsigned n)
{
    snprintf(ret, LIMIT_RUN_ID + 1, "%032x", n);
}

/* A session of that name has `calls` calls, and then ends. */
static void end_session(House *house, const char *instance, unsigned first, unsigned calls)
{
    Sandbox sandbox = {0};
    Session session = {.all = &house->sessions, .sandbox = &sandbox};

    snprintf(session.instance, sizeof(session.instance), "%s", instance);
    list_init(&session.stored);
    for (unsigned i = 0; i < calls; i++) {
        char run_id[LIMIT_RUN_ID + 1];
        Buf record = BUF_NULL;

        run_id_of(run_id, first + i);
        Call *call = call_adopt(&house->calls, &call_turn_ops, &session, run_id, first + i);
        assert_non_null(call);
        assert_int_equal(buf_append(&record, run_id, LIMIT_RUN_ID), 0);
        call_end(call, &record);
    }
    ended_keep(&house->ended, &session);
    calls_orphan(&house->calls, &session.stored);
}

static void begin_again(void **state)
{
    house_end(*state);
    *state = house_new();
    ended_load(&((House *)*state)->ended);
}

static bool is_known(House *house, unsigned n)
{
    char run_id[LIMIT_RUN_ID + 1];

    run_id_of(run_id, n);
    const Call *call = call_find(&house->calls, 0, run_id);
    if (call) {
        assert_int_equal(call->code_hash, n);
        assert_int_equal(call->record.size, LIMIT_RUN_ID);
        assert_memory_equal(buf_head(&call->record), run_id, LIMIT_RUN_ID);
    }
    return call != NULL;
}

static size_t count_files(void)
{
    char path[PATH_MAX];
    size_t n = 0;

    snprintf(path, sizeof(path), "%s/ended", state_dir);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        n += entry->d_name[0] != '.';
    if (directory)
        closedir(directory);
    return n;
}

/* As if the session had ended so long ago. */
static void make_older(const char *instance, double seconds)
{
    char path[PATH_MAX];
    time_t then = (time_t)(clock_unix() - seconds);
    struct timespec times[] = {{.tv_sec = then}, {.tv_sec = then}};

    snprintf(path, sizeof(path), "%s/ended/%s", state_dir, instance);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

TEST_WITH(test_another_controller_knows_them, set_up, tear_down)
{
    end_session(*state, "00000000000000aa", 1, 3);
    end_session(*state, "00000000000000bb", 4, 1);
    end_session(*state, "00000000000000cc", 5, 0);
    assert_int_equal(count_files(), 2);
    for (int i = 0; i < 2; i++) {
        begin_again(state);
        for (unsigned n = 1; n <= 4; n++)
            assert_true(is_known(*state, n));
        assert_int_equal(count_files(), 2);
    }
}

TEST_WITH(test_their_time_goes_on, set_up, tear_down)
{
    end_session(*state, "00000000000000aa", 1, 1);
    end_session(*state, "00000000000000bb", 2, 1);
    end_session(*state, "00000000000000cc", 3, 1);
    make_older("00000000000000aa", STORED_RUN_SECONDS + 1);
    make_older("00000000000000cc", STORED_RUN_SECONDS / 2.0);
    begin_again(state);
    assert_false(is_known(*state, 1));
    assert_true(is_known(*state, 2));
    assert_true(is_known(*state, 3));
    assert_int_equal(count_files(), 2);

    /* In the order they expire, whatever their names are. */
    House *house = *state;
    const Call *first = list_entry(list_first(&house->calls.orphans), Call, in_session);
    assert_int_equal(first->code_hash, 3);
    assert_true(first->expires < clock_now() + STORED_RUN_SECONDS * NSEC_PER_SEC);
}

static Text name_of(char ret[16], unsigned n)
{
    return (Text){ret, (size_t)snprintf(ret, 16, "s%u", n)};
}

TEST_WITH(test_end_records_are_bounded, set_up, tear_down)
{
    EndRecords *end_records = &((House *)*state)->sessions.end_records;
    char name[16];

    for (unsigned n = 0; n < END_RECORDS_MAX + 2; n++) {
        EndRecord end_record = {.reason = "why", .time = 86400};

        name_of(end_record.name, n);
        for (int i = 0; i < 2; i++) /* one a name */
            end_record_add(end_records, &end_record);
    }
    assert_null(end_record_find(end_records, 0, name_of(name, 1)));
    assert_null(end_record_find(end_records, 0, (Text){0}));
    char words[END_RECORD_WORDS];
    end_record_words(words, end_record_find(end_records, 0, name_of(name, 2)));
    assert_string_equal(words, "ended at 1970-01-02 00:00:00 UTC: why");
}

TEST_WITH(test_what_is_no_journal, set_up, tear_down)
{
    static const char *const names[] = {"00000000000000aa.new", "00000000000000bb"};

    end_session(*state, "00000000000000cc", 1, 1);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        char path[PATH_MAX];

        snprintf(path, sizeof(path), "%s/ended/%s", state_dir, names[i]);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_int_equal(write(fd, "garbage", 7), 7);
        close(fd);
    }
    begin_again(state);
    assert_true(is_known(*state, 1));
    assert_int_equal(count_files(), 2);
    make_older("00000000000000bb", STORED_RUN_SECONDS + 1);
    begin_again(state);
    assert_int_equal(count_files(), 1);
}
