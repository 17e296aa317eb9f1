/* Reports of a hostile supervisor about a call: each is refused, or makes a record that is itself a valid
 * message body. */
#include <assert.h>

#include "host/call/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const RecordHead head = {.run_id = "0123456789abcdef0123456789abcdef", .engine = "oci"};
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Buf record _cleanup_(buf_deinit) = BUF_NULL;
    Problem problem = PROBLEM_NULL;
    MsgExecuted executed;

    if (message_decode(&message, data, size, &problem) < 0 ||
        record_decode(&executed, &message.body, &problem) < 0)
        return 0;
    if (record_write(&record, &head, &executed, record_was_killed(&executed), NULL) == 0 &&
        wire_check(buf_head(&record), record.size) < 0)
        abort();
    return 0;
}
