#include "guest/supervisor/streams/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "guest/supervisor/command_line.h"
#include "proto/base/fdio.h"
#include "proto/base/log.h"

int spill_open(Spill *spill, const char *session_directory)
{
    _cleanup_(closep) int session = open(session_directory, O_DIRECTORY | O_RDONLY | O_CLOEXEC);

    if (session < 0) {
        int r = -errno;
        log_error("cannot open the session's directory", "path=%s error=%s", session_directory, strerror(-r));
        return r;
    }
    *spill = SPILL_NONE;
    spill->directory = openat(session, ".limpet", O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (spill->directory < 0)
        log_warn("long output will not be stored", "path=%s/.limpet error=%s", session_directory,
                 strerror(errno));
    return 0;
}

void spill_close(Spill *spill)
{
    close_fd(&spill->directory);
}

void output_init(Output *output, size_t limit, const Spill *spill, const char *name)
{
    *output = (Output){.limit = limit, .spill = spill, .spill_fd = -1};
    snprintf(output->name, sizeof(output->name), "%s", name);
}

void output_deinit(Output *output)
{
    buf_deinit(&output->kept);
    output->kept = BUF_NULL;
    close_fd(&output->spill_fd);
}

static void spill_give_up(Output *output)
{
    output->spill_failed = true;
    if (output->spill_fd < 0)
        return;
    close_fd(&output->spill_fd);
    unlinkat(output->spill->directory, output->name, 0);
}

static void spill_write(Output *output, const uint8_t *bytes, size_t n)
{
    if (output->spill_failed)
        return;
    n = (size_t)MIN(n, output->spill->limit - output->spilled);
    output->spilled += n;
    if (write_all(output->spill_fd, bytes, n) < 0)
        spill_give_up(output);
}

/* Creates the spill file and moves what was kept so far into it. */
static void spill_begin(Output *output)
{
    const char *name = output->name;

    if (output->spill_fd >= 0 || output->spill_failed)
        return;
    if (output->spill->directory < 0) {
        output->spill_failed = true;
        return;
    }
    /* A file that is already there may be a trap. It goes, and only a new one will do. */
    unlinkat(output->spill->directory, name, 0);
    output->spill_fd =
        openat(output->spill->directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (output->spill_fd < 0)
        spill_give_up(output);
    else
        spill_write(output, buf_head(&output->kept), output->kept.size);
}

void output_write(Output *output, const uint8_t *bytes, size_t n)
{
    size_t room = output->limit - output->kept.size;
    bool all_kept = output->total == output->kept.size;
    size_t kept = all_kept ? MIN(n, room) : 0;

    if (buf_append(&output->kept, bytes, kept) < 0)
        kept = 0;
    output->total += n;
    if (kept == n)
        return;
    if (all_kept)
        spill_begin(output);
    if (output->spill_fd >= 0)
        spill_write(output, bytes + kept, n - kept);
}

/* The size without an incomplete character at the end. */
static size_t complete_size(const uint8_t *bytes, size_t size)
{
    for (size_t back = 1; back <= MIN(size, 3u); back++) {
        uint8_t lead = bytes[size - back];
        size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;

        if (lead < 0x80)
            return size;
        if (lead >= 0xC0)
            return length > back ? size - back : size;
    }
    return size;
}

/* The size, at most `limit`, at which valid UTF-8 can be cut. */
static size_t cut_size(const uint8_t *text, size_t limit)
{
    while (limit > 0 && (text[limit] & 0xC0) == 0x80)
        limit--;
    return limit;
}

int output_text(Output *output, Buf *text)
{
    size_t start = text->size;
    size_t size = output->kept.size;

    /* The last character kept may be incomplete when more was written. Alone it would decode to U+FFFD. */
    if (output->total > size)
        size = complete_size(buf_head(&output->kept), size);

    int r = utf8_append_replaced(text, buf_head(&output->kept), size);
    if (r < 0)
        return r;

    size_t decoded = text->size - start;
    if (decoded > output->limit)
        text->size = start + cut_size(buf_head(text) + start, output->limit);
    output->truncated = decoded > output->limit || output->total > output->kept.size;
    if (output->truncated)
        spill_begin(output);
    return 0;
}

bool output_file(const Output *output, char *ret, size_t size)
{
    if (output->spill_fd < 0)
        return false;
    snprintf(ret, size, SESSION_PATH "/.limpet/%s", output->name);
    return true;
}

/* Both streams of one writer */

void outputs_init(Output outputs[OUTPUTS], const OutputLimits *limits, const char *stem)
{
    static const char *const names[OUTPUTS] = {"stdout", "stderr"};
    char name[SPILL_NAME];

    for (unsigned i = 0; i < OUTPUTS; i++) {
        snprintf(name, sizeof(name), "%s.%s", stem, names[i]);
        output_init(&outputs[i], limits->output, &limits->spill, name);
    }
}

void outputs_deinit(Output outputs[OUTPUTS])
{
    for (unsigned i = 0; i < OUTPUTS; i++)
        output_deinit(&outputs[i]);
}

void output_words_deinit(OutputWords *words)
{
    for (unsigned i = 0; i < OUTPUTS; i++)
        buf_deinit(&words->text[i]);
}

/* The text of a stream, and the path of all of it where it was cut. */
static int say_stream(Text *ret_text, Text *ret_file, Output *output, Buf *text, char *file)
{
    int r = output_text(output, text);

    *ret_text = text->size > 0 ? (Text){(const char *)buf_head(text), text->size} : (Text){"", 0};
    if (output->truncated && output_file(output, file, SPILL_PATH))
        *ret_file = text_of(file);
    return r;
}

int outputs_say(MsgExecuted *record, Output outputs[OUTPUTS], OutputWords *ret)
{
    int r = say_stream(&record->out, &record->stdout_file, &outputs[0], &ret->text[0], ret->file[0]);

    if (r == 0)
        r = say_stream(&record->err, &record->stderr_file, &outputs[1], &ret->text[1], ret->file[1]);
    record->stdout_bytes = outputs[0].total;
    record->stderr_bytes = outputs[1].total;
    record->truncated = outputs[0].truncated || outputs[1].truncated;
    return r;
}

int outputs_say_between(MsgExecuted *record, const Output between[OUTPUTS], OutputWords *ret)
{
    MsgBetween *said = &record->between;
    Text *words[OUTPUTS] = {&said->out, &said->err};

    said->dropped = 0;
    for (unsigned i = 0; i < OUTPUTS; i++) {
        const Buf *kept = &between[i].kept;
        Buf *text = &ret->text[i];
        int r = utf8_append_replaced(text, buf_head(kept), kept->size);

        if (r < 0)
            return r;
        *words[i] = text->size > 0 ? (Text){(const char *)buf_head(text), text->size} : (Text){"", 0};
        said->dropped += between[i].total - kept->size;
        record->has_between |= between[i].total > 0;
    }
    return 0;
}
