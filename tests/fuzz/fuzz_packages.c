/* Requirements of clients, and the lock that an installer writes: whatever comes, it is no more than lines of
 * the one, and packages of the other. */
#include <stdlib.h>
#include <string.h>

#include "host/install/requirements.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_requirements(Text text)
{
    Buf lines _cleanup_(buf_deinit) = BUF_NULL;
    Problem problem = PROBLEM_NULL;

    if (requirements_read(&lines, text, &problem) < 0)
        return;
    require(lines.size > 1 && buf_head(&lines)[lines.size - 1] == '\n' && *buf_head(&lines) != '-');
    require(!memmem(buf_head(&lines), lines.size, "\n-", 2) && !memchr(buf_head(&lines), '\0', lines.size));
    requirements_are_of(&lines, "polars,a-b");
}

static void check_lock(Text lock)
{
    const MsgInstalled installed = {.packages = lock_packages(&lock), .lock = lock};
    Buf body _cleanup_(buf_deinit) = BUF_NULL;
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;
    MsgInstalled said;

    if (!lock_is_sound(lock) || message_encode(&body, MSG_REPLY, 1, MsgInstalled, &installed) < 0)
        return;
    require(message_decode(&message, buf_head(&body), body.size, &problem) == 0);
    require(body_decode(&said, MsgInstalled, &message.body, &problem) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const Text text = {(const char *)data, size};

    check_requirements(text);
    check_lock(text);
    return 0;
}
