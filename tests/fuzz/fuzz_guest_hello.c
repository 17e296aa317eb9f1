/* First message of anyone who can connect to a guest's socket: it is refused, or it makes sense. */
#include <assert.h>

#include "host/sandbox/guest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;
    GuestClaim claim;

    if (message_decode(&message, data, size, &problem) < 0 ||
        guest_hello_decode(&claim, &message.body, &problem) < 0)
        return 0;
    if (claim.hello.branch_count == 0 || claim.hello.branch_count > ARRAY_SIZE(claim.hello.branches) ||
        claim.hello.branches[0].branch != 0)
        abort();
    if (claim.hello.running.id != 0 && !run_id_valid((Text){claim.hello.running.run_id, LIMIT_RUN_ID}))
        abort();
    return 0;
}
