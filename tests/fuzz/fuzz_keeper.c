/* Requests of the controller, as the files worker reads them: whatever comes, each request has one answer,
 * and nothing outside the state directory changes. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/tree.h"
#include "host/keeper/keeper.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static Loop *loop;
static Keeper *keeper;

static void on_answer(void *userdata, uint64_t id, Buf *answer, Descriptors *descriptors)
{
    if (answer->size == 0)
        abort();
    buf_deinit(answer);
    descriptors_close(descriptors);
    loop_stop(loop, 0);
}

static char state_dir[] = "/tmp/limpet-fuzz-XXXXXX";

static void end(void)
{
    keeper_free(keeper);
    loop_free(loop);
    remove_path(state_dir);
}

static void begin(void)
{
    const KeeperConfig config = {.state_dir = state_dir, .answer = on_answer};

    if (!mkdtemp(state_dir) || loop_new(&loop) < 0 || keeper_new(&keeper, loop, &config) < 0)
        abort();
    atexit(end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Problem problem = PROBLEM_NULL;
    Buf request = BUF_NULL;

    if (!keeper)
        begin();
    if (buf_append(&request, data, size) < 0)
        abort();
    keeper_take(keeper, &request, &problem);
    while (keeper_jobs(keeper) > 0)
        loop_run(loop);
    return 0;
}
