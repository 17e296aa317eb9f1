/* limpet-interpreter: the process that runs the cells of one session. The supervisor starts it with /dev/null
 * and two pipes as 0, 1 and 2, their channel as 3 and the rings of its output as 4, already unprivileged and
 * in the session's directory. Its argument is the memory of the sandbox in bytes; without one, or with 0, it
 * is unlimited. */
#include "guest/interpreter/main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/interpreter/memory.h"
#include "guest/interpreter/checkpoint/checkpoint.h"
#include "guest/interpreter/errors.h"
#include "guest/interpreter/descriptors.h"
#include "guest/interpreter/reply.h"
#include "guest/interpreter/serve.h"
#include "guest/interpreter/output.h"
#include "guest/interpreter/start.h"
#include "guest/interpreter/oom_score.h"

static int fail(const char *reason)
{
    fprintf(stderr, "limpet-interpreter: %s\n", reason);
    return EXIT_FAILURE;
}

int interpreter_main(int argc, char **argv)
{
    uint64_t memory = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    Problem problem = PROBLEM_NULL;

    memory_limit_init(memory);
    oom_score_init(memory);
    checkpoint_init();
    if (descriptors_init() < 0)
        return fail("it is started by limpet-guest, which gives it descriptors 0 to 3");
    if (sinks_init(descriptors_stream(1), descriptors_stream(2), RING_FD) < 0)
        return fail("out of memory");
    if (start_python(&problem) < 0)
        return fail(problem.text);
    crash_init();
    if (reply_ready(0, &(Notes){.n = 0}, NULL) == 0)
        serve();
    /* Nobody is left to answer. Threads of cells may never end, so nothing waits for them. */
    _exit(EXIT_SUCCESS);
}
