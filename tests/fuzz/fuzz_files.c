/* Bytes of a hostile files process on its channel: whatever they are, each question is answered at most once,
 * and the process is given up or goes on. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "guest/supervisor/services/files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Bytes that fit into a socket at once. */
#define PIECE 4096u

/* Asks one question of each kind: number N has the id N + 1. */
static void ask_everything(FilesProcess *files)
{
    for (unsigned i = 0; i < FILE_OPS; i++)
        files->questions[i] = (FileQuestion){.id = i + 1, .op = (FileOp)i, .told = true};
}

static void say(FilesProcess *files, int end, const uint8_t *data, size_t size)
{
    for (size_t at = 0; at < size && files->channel >= 0; at += MIN(size - at, PIECE)) {
        if (send(end, data + at, MIN(size - at, PIECE), MSG_NOSIGNAL) < 0)
            break;
        files->file.on_ready(&files->file, EPOLLIN);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(loop_freep) Loop *loop = NULL;
    Link link = {.socket = ZMTP_SOCKET_NULL};
    FilesProcess files;
    pid_t none = 0;
    int pair[2];

    if (loop_new(&loop) < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        abort();
    files_process_init(&files, loop, NULL, &link, &none);
    if (files_process_listen(&files, pair[0]) < 0)
        abort();
    ask_everything(&files);
    say(&files, pair[1], data, size);
    close(pair[1]);
    while (files.channel >= 0)
        files.file.on_ready(&files.file, EPOLLIN | EPOLLHUP);
    for (size_t i = 0; i < ARRAY_SIZE(files.questions); i++)
        if (files.questions[i].id)
            abort(); /* it was neither answered nor told that it has failed */
    files_process_deinit(&files);
    return 0;
}
