/* limpet-interpreter: the process that runs the cells of one session. The supervisor starts it with /dev/null
 * and two pipes as 0, 1 and 2 and their channel as 3, already unprivileged and in the session's directory. */
#include <stdio.h>
#include <string.h>

#include "guest/interpreter/checkpoint/checkpoint.h"
#include "guest/interpreter/descriptors.h"
#include "guest/interpreter/headroom.h"
#include "guest/interpreter/reply.h"
#include "guest/interpreter/serve.h"
#include "guest/interpreter/sink.h"
#include "guest/interpreter/start.h"
#include "guest/interpreter/threadstack.h"
#include "guest/interpreter/volunteer.h"

static int fail(const char *reason)
{
    fprintf(stderr, "limpet-interpreter: %s\n", reason);
    return EXIT_FAILURE;
}

int main(void)
{
    Problem problem = PROBLEM_NULL;

    volunteer_first();
    checkpoint_init();
    threadstack_limit();
    headroom_init();
    if (descriptors_init() < 0)
        return fail("it is started by limpet-guest, which gives it descriptors 0 to 3");
    if (sinks_init(descriptors_stream(1), descriptors_stream(2)) < 0)
        return fail("out of memory");
    if (start_python(&problem) < 0)
        return fail(problem.text);
    if (reply_ready(0, &(Notes){.n = 0}) == 0)
        serve();
    /* Nobody is left to answer. Threads of cells may never end, so nothing waits for them. */
    _exit(EXIT_SUCCESS);
}
