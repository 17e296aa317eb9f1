/* A floor of streams: until everything has been read from a pipe. Arguments: the bytes, and the command that
 * writes them to its standard output; without one a process that does nothing but write. */
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/bench.h"

#define CHUNK ((size_t)64 << 10) /* of a write, as in the cell */

typedef struct Context {
    uint64_t bytes;
    char **command; /* empty: none */
} Context;

static char chunk[CHUNK];

static void write_all(uint64_t bytes)
{
    while (bytes > 0) {
        ssize_t n = write(STDOUT_FILENO, chunk, bytes < CHUNK ? (size_t)bytes : CHUNK);

        if (n < 0)
            _exit(1);
        bytes -= (uint64_t)n;
    }
    _exit(0);
}

static void run_writer(const Context *c, int out)
{
    int nothing = open("/dev/null", O_RDONLY);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(nothing, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    close(out);
    if (!*c->command)
        write_all(c->bytes);
    execvp(*c->command, c->command);
    perror(*c->command);
    _exit(127);
}

static uint64_t read_all(int fd)
{
    uint64_t sum = 0;
    ssize_t n;

    while ((n = read(fd, chunk, sizeof(chunk))) > 0)
        sum += (uint64_t)n;
    return sum;
}

static int transfer(void *context, uint64_t *begin)
{
    const Context *c = context;
    int ends[2], status = 0;
    uint64_t arrived;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0 || (pid = fork()) < 0)
        return 1;
    if (pid == 0)
        run_writer(c, ends[1]);
    close(ends[1]);
    arrived = read_all(ends[0]);
    close(ends[0]);
    if (waitpid(pid, &status, 0) != pid || status != 0 || arrived != c->bytes) {
        fprintf(stderr, "%llu bytes of %llu arrived, exit status %d\n", (unsigned long long)arrived,
                (unsigned long long)c->bytes, status);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    Context c = {.bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 0, .command = argv + 2};

    return argc < 2 ? 2 : bench_serve(transfer, &c);
}
