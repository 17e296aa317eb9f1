/* guest/supervisor/streams/streams.h: characters at the cut, and what a spill file meets. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "guest/supervisor/streams/streams.h"
#include "proto/wire.h"
#include "tests/support/cmocka.h"

static char root[] = "/tmp/limpet-output-XXXXXX";
static char inside[64];
static Spill spill;

static int set_up(void **state)
{
    if (!mkdtemp(root))
        return -1;
    snprintf(inside, sizeof(inside), "%s/.limpet", root);
    return mkdir(inside, 0755) < 0 ? -1 : spill_open(&spill, root);
}

static int tear_down(void **state)
{
    spill_close(&spill);
    unlinkat(AT_FDCWD, inside, AT_REMOVEDIR);
    return rmdir(root);
}

static void write_text_to(Output *output, const char *text)
{
    output_write(output, (const uint8_t *)text, strlen(text));
}

static void assert_text(Output *output, const char *expected)
{
    _cleanup_(buf_deinit) Buf text = BUF_NULL;

    assert_int_equal(output_text(output, &text), 0);
    assert_int_equal(text.size, strlen(expected));
    if (text.size > 0)
        assert_memory_equal(buf_head(&text), expected, text.size);
}

static void assert_file(Output *output, const char *expected)
{
    static const char shown[] = "/session/.limpet/";
    char name[LIMIT_PATH], path[LIMIT_PATH * 2], content[256];

    assert_true(output_file(output, name, sizeof(name)));
    assert_memory_equal(name, shown, strlen(shown));
    snprintf(path, sizeof(path), "%s/%s", inside, name + strlen(shown));
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, content, sizeof(content));
    close(fd);
    assert_int_equal(n, strlen(expected));
    assert_memory_equal(content, expected, n);
    unlink(path);
}

TEST(test_no_character_is_cut)
{
    static const char four[] = "\xf0\x9f\x98\x80";

    for (size_t limit = 1; limit <= 9; limit++) {
        _cleanup_(output_deinit) Output output;
        char expected[16] = "";

        for (size_t n = 0; n < limit / 4; n++)
            strcat(expected, four);
        output_init(&output, limit, &spill, "7.cut");
        for (int i = 0; i < 5; i++)
            write_text_to(&output, four);
        assert_text(&output, expected);
        assert_true(output.truncated);
        assert_file(&output,
                    "\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80");
    }
}

TEST(test_replacement_that_grows_over_the_limit)
{
    _cleanup_(output_deinit) Output output;

    output_init(&output, 7, &spill, "7.grown");
    write_text_to(&output, "\xff\xff\xff");
    assert_text(&output, "\xef\xbf\xbd\xef\xbf\xbd");
    assert_true(output.truncated);
    assert_int_equal(output.total, 3);
    assert_file(&output, "\xff\xff\xff");
}

TEST(test_planted_link_is_not_followed)
{
    _cleanup_(output_deinit) Output output;
    char victim[128], link[128];

    snprintf(victim, sizeof(victim), "%s/victim", root);
    snprintf(link, sizeof(link), "%s/7.planted", inside);
    close(open(victim, O_CREAT | O_WRONLY, 0644));
    assert_int_equal(symlink(victim, link), 0);
    output_init(&output, 2, &spill, "7.planted");
    write_text_to(&output, "text");
    assert_text(&output, "te");
    assert_file(&output, "text");

    struct stat status;
    assert_int_equal(stat(victim, &status), 0);
    assert_int_equal(status.st_size, 0);
    unlink(victim);
}

TEST(test_without_a_place_nothing_is_spilled)
{
    Spill none = SPILL_NONE;
    _cleanup_(output_deinit) Output output;
    char path[LIMIT_PATH];

    output_init(&output, 2, &none, "7.none");
    write_text_to(&output, "text");
    assert_text(&output, "te");
    assert_true(output.truncated);
    assert_int_equal(output.total, 4);
    assert_false(output_file(&output, path, sizeof(path)));
}

TEST(test_full_disk_leaves_no_half_file)
{
    _cleanup_(output_deinit) Output output;
    char path[LIMIT_PATH], name[128];

    output_init(&output, 2, &spill, "7.full");
    write_text_to(&output, "text");
    /* /dev/full in the place of the file: the next write fails as on a full disk. */
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_int_equal(dup2(full, output.spill_fd), output.spill_fd);
    close(full);
    write_text_to(&output, "more");
    assert_text(&output, "te");
    assert_int_equal(output.total, 8);
    assert_false(output_file(&output, path, sizeof(path)));
    snprintf(name, sizeof(name), "%s/7.full", inside);
    assert_int_equal(access(name, F_OK), -1);
}

int main(void)
{
    return tests_run(set_up, tear_down);
}
