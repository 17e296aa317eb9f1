/* Requests of the controller, as the files worker reads them: whatever comes, each request has one answer,
 * and nothing outside the state directory changes. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/tree.h"
#include "host/file_service/file_service.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static Loop *loop;
static FileService *file_service;

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
    file_service_free(file_service);
    loop_free(loop);
    remove_path(state_dir);
}

static void begin(void)
{
    const FileServiceConfig config = {.state_dir = state_dir, .answer = on_answer};

    if (!mkdtemp(state_dir) || loop_new(&loop) < 0 || file_service_new(&file_service, loop, &config) < 0)
        abort();
    atexit(end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Problem problem = PROBLEM_NULL;
    Buf request = BUF_NULL;

    if (!file_service)
        begin();
    if (buf_append(&request, data, size) < 0)
        abort();
    file_service_take(file_service, &request, &(Descriptors){0}, &problem);
    while (file_service_jobs(file_service) > 0)
        loop_run(loop);
    return 0;
}
