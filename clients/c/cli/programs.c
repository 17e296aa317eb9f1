/* The commands whose work other programs do: limpet-image, and the Python package. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clients/c/cli/cli.h"

/* ---- limpet image ---- */

/* $LIMPET_IMAGE_TOOL; where `make install` puts it; where the source tree has it, seen from its build/bin. */
static int tool_find(char *ret, size_t size)
{
    static const char *const places[] = {"../libexec/limpet/limpet-image", "../../image/build"};
    const char *given = getenv("LIMPET_IMAGE_TOOL");
    char directory[PATH_MAX];

    if (given && *given) {
        snprintf(ret, size, "%s", given);
        return 0;
    }
    cli_program_directory(directory, sizeof(directory));
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        int n = snprintf(ret, size, "%s/%s", directory, places[i]);

        if (n > 0 && (size_t)n < size && access(ret, X_OK) == 0)
            return 0;
    }
    return -ENOENT;
}

static int run(const void *values, char **operands, int n)
{
    char tool[2 * PATH_MAX];

    if (tool_find(tool, sizeof(tool)) < 0) {
        fprintf(stderr,
                "limpet: limpet-image is not installed; install it, or set LIMPET_IMAGE_TOOL to its path\n");
        return EXIT_SANDBOX;
    }
    /* operands[-1] is "limpet", and NULL follows the last one. */
    operands[-1] = tool;
    execv(tool, operands - 1);
    fprintf(stderr, "limpet: %s: %s\n", tool, strerror(errno));
    return EXIT_SANDBOX;
}

const Command command_image = {
    .name = "image",
    .usage = "build|ls|rm|smoke|export ...",
    .summary = "Builds and manages the images that sessions run in",
    .details = "\n'limpet image --help' lists the options.",
    .operands_max = -1,
    .verbatim = true,
    .run = run,
};

/* ---- the Python that has the package ---- */

/* "DIRECTORY/python3" to be freed, where that is the Python of a virtual environment; NULL otherwise. */
static char *python_of(const char *directory, size_t n)
{
    _cleanup_(freep) char *marker = NULL;
    char *python = NULL;

    if (asprintf(&marker, "%.*s/../pyvenv.cfg", (int)n, directory) < 0) {
        marker = NULL;
        return NULL;
    }
    if (access(marker, R_OK) < 0 || asprintf(&python, "%.*s/python3", (int)n, directory) < 0)
        return NULL;
    if (access(python, X_OK) < 0) {
        free(python);
        return NULL;
    }
    return python;
}

/* Finds the Python of the environment where the program itself is, wherever a link to it lies, or of one
 * called venv beside that directory. */
static char *python_of_program(void)
{
    char program[PATH_MAX], venv[PATH_MAX + sizeof("/../venv/bin")];
    char *python;

    cli_program_directory(program, sizeof(program));
    python = python_of(program, strlen(program));
    snprintf(venv, sizeof(venv), "%s/../venv/bin", program);
    return python ? python : python_of(venv, strlen(venv));
}

/* The Python of the virtual environment that this program was called in, by its path or by PATH; NULL if it
 * was in none. */
static char *python_called_in(void)
{
    const char *called = program_invocation_name, *slash = strrchr(called, '/');
    const char *path = getenv("PATH");

    if (slash)
        return python_of(called, (size_t)(slash - called));
    while (path && *path) {
        size_t n = strcspn(path, ":");
        _cleanup_(freep) char *program = NULL;

        if (asprintf(&program, "%.*s/%s", (int)n, path, called) < 0) {
            program = NULL;
            return NULL;
        }
        if (n > 0 && access(program, X_OK) == 0)
            return python_of(path, n);
        path += n + (path[n] == ':');
    }
    return NULL;
}

static char *python_of_shell(void)
{
    const char *environment = getenv("VIRTUAL_ENV");
    char bin[PATH_MAX];

    if (!environment || snprintf(bin, sizeof(bin), "%s/bin", environment) >= (int)sizeof(bin))
        return NULL;
    return python_of(bin, strlen(bin));
}

static bool has_package(const char *python)
{
    const char *code =
        "import importlib.util as u, sys; sys.exit(None in map(u.find_spec, ('limpet', 'msgpack')))";
    char *const arguments[] = {(char *)python, (char *)"-c", (char *)code, NULL};
    posix_spawn_file_actions_t actions;
    int status = -1;
    pid_t pid;

    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    if (posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0 &&
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
        posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO) == 0 &&
        posix_spawnp(&pid, python, &actions, NULL, arguments, environ) == 0)
        waitpid(pid, &status, 0);
    posix_spawn_file_actions_destroy(&actions);
    return status == 0;
}

/* Finds a Python that has the package: the one that LIMPET_PYTHON names and no other, or that of the first
 * environment which has it, or the one of PATH. To be freed; NULL where none has it. */
static char *find_python(void)
{
    static char *(*const places[])(void) = {python_called_in, python_of_program, python_of_shell};
    const char *given = getenv("LIMPET_PYTHON");
    char *python = NULL;

    for (size_t i = 0; !(given && *given) && i < ARRAY_SIZE(places); i++) {
        python = places[i]();
        if (python && has_package(python))
            return python;
        free(python);
    }
    python = strdup(given && *given ? given : "python3");
    if (python && has_package(python))
        return python;
    free(python);
    return NULL;
}

int become_python(const char *module, const char *extra, char **operands, int n)
{
    _cleanup_(freep) char *python = find_python();
    _cleanup_(freep) char **arguments = calloc((size_t)n + 4, sizeof(*arguments));
    const char *given = getenv("LIMPET_PYTHON");

    if (!arguments) {
        fprintf(stderr, "limpet: out of memory\n");
        return EXIT_SANDBOX;
    }
    if (python) {
        arguments[0] = python;
        arguments[1] = (char *)"-m";
        arguments[2] = (char *)module;
        memcpy(arguments + 3, operands, (size_t)n * sizeof(*arguments));
        fflush(stdout);
        execvp(python, arguments);
    }
    fprintf(stderr,
            "limpet: %s does not have the Python package; activate the environment that has it, or set "
            "LIMPET_PYTHON to a Python that has limpet%s%s%s\n",
            given && *given ? given : "python3", extra ? "[" : "", extra ? extra : "", extra ? "]" : "");
    return EXIT_SANDBOX;
}

/* Puts the command's word before its operands. */
static int become(const char *module, const char *extra, const char *word, char **operands, int n)
{
    _cleanup_(freep) char **all = calloc((size_t)n + 1, sizeof(*all));

    if (!all) {
        fprintf(stderr, "limpet: out of memory\n");
        return EXIT_SANDBOX;
    }
    all[0] = (char *)word;
    memcpy(all + 1, operands, (size_t)n * sizeof(*all));
    return become_python(module, extra, all, n + 1);
}

static int run_save(const void *values, char **operands, int n)
{
    return become("limpet.saving", NULL, "save", operands, n);
}

static int run_show(const void *values, char **operands, int n)
{
    return become("limpet.saving", NULL, "show", operands, n);
}

static int run_export(const void *values, char **operands, int n)
{
    return become("limpet.saving", NULL, "export", operands, n);
}

static int run_up(const void *values, char **operands, int n)
{
    return become("limpet.up", NULL, "up", operands, n);
}

static int run_down(const void *values, char **operands, int n)
{
    return become("limpet.up", NULL, "down", operands, n);
}

static int run_doctor(const void *values, char **operands, int n)
{
    return become_python("limpet.doctor", NULL, operands, n);
}

static int run_jupyter(const void *values, char **operands, int n)
{
    return become_python("limpet.jupyter", "jupyter", operands, n);
}

static int run_kubernetes(const void *values, char **operands, int n)
{
    return become_python("limpet.kubernetes", "kubernetes", operands, n);
}

static int run_mcp(const void *values, char **operands, int n)
{
    return become_python("limpet.mcp", "mcp", operands, n);
}

static int run_serve(const void *values, char **operands, int n)
{
    return become_python("limpet.serve", "serve", operands, n);
}

static int run_key(const void *values, char **operands, int n)
{
    return become("limpet.serve", "serve", "key", operands, n);
}

const Command command_save = {
    .name = "save",
    .usage = "SESSION FILE",
    .summary = "Saves a session to a file: its variables, its memory, /session and its options",
    .details =
        "\nThe session does not change. Variables that cannot be pickled are listed with the reason. The file is a\n"
        "tar; 'limpet open --restore FILE SESSION' makes a session of it, on another machine too.\n"
        "Needs the Python package in python3, or in the Python that LIMPET_PYTHON names.",
    .operands = {COMPLETE_SESSION, COMPLETE_FILE},
    .operands_min = 2,
    .operands_max = 2,
    .run = run_save,
};

const Command command_show = {
    .name = "show",
    .usage = "FILE",
    .summary = "Shows what is in a file of 'limpet save'",
    .details =
        "\nNothing in the file runs. The list has the names, types and sizes of the variables, and says whether the\n"
        "live memory is there and fits this machine.\n"
        "Needs the Python package in python3, or in the Python that LIMPET_PYTHON names.",
    .operands = {COMPLETE_FILE},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_show,
};

const Command command_export = {
    .name = "export",
    .usage = "SESSION DIRECTORY",
    .summary = "Writes a notebook of the calls of a session, its artifacts and a lock file",
    .details =
        "\nThe notebook has the calls in order with their outputs, and runs again. lock.json has the image, the versions\n"
        "of Python and of all packages, and the artifacts with their SHA-256 and the call that made them.\n"
        "Needs the Python package in python3, or in the Python that LIMPET_PYTHON names.",
    .operands = {COMPLETE_SESSION, COMPLETE_DIRECTORY},
    .operands_min = 2,
    .operands_max = 2,
    .run = run_export,
};

const Command command_up = {
    .name = "up",
    .usage = "[--upgrade] [--directory DIR] [ADDRESS] [OPTIONS]",
    .summary = "Starts a controller in a container of a Docker Engine, here or elsewhere",
    .details =
        "\nADDRESS is docker://, which is the engine that the docker command uses, docker://CONTEXT, or docker://tcp://HOST:PORT.\n"
        "Needs the docker command, and the Python package in python3, or in the Python that LIMPET_PYTHON names.\n"
        "'limpet up --help' lists the options; those of limpetd may follow.",
    .operands_max = -1,
    .verbatim = true,
    .run = run_up,
};

const Command command_down = {
    .name = "down",
    .usage = "[--all] [ADDRESS]",
    .summary = "Ends the controller that 'limpet up' has started",
    .details = "\nIts sessions wait an hour for the next 'limpet up'; with --all they end, too.",
    .operands_max = -1,
    .verbatim = true,
    .run = run_down,
};

const Command command_doctor = {
    .name = "doctor",
    .usage = "[--address ADDRESS]",
    .summary = "Checks this machine, the controller, the Python package and the gateway, and names remedies",
    .details =
        "\nPrints the findings of 'limpetd --check', and the state of the controller, of the Python package in\n"
        "python3, or in the Python that LIMPET_PYTHON names, and of the gateway.\n"
        "Nothing is started. The exit status is 1 if a check fails.",
    .operands_max = -1,
    .verbatim = true,
    .run = run_doctor,
};

const Command command_jupyter = {
    .name = "jupyter",
    .usage = "install [OPTIONS]",
    .summary = "Installs a Jupyter kernel whose cells run in a session",
    .details =
        "\nNeeds the Python package with the extra 'jupyter' in python3, or in the Python that LIMPET_PYTHON names.\n"
        "'limpet jupyter install --help' lists the options.",
    .operands_max = -1,
    .verbatim = true,
    .run = run_jupyter,
};

const Command command_kubernetes = {
    .name = "kubernetes",
    .usage = "manifest [OPTIONS]",
    .summary = "Prints what a namespace of Kubernetes needs for sessions in pods",
    .details =
        "\nNeeds the Python package with the extra 'kubernetes' in python3, or in the Python that LIMPET_PYTHON names.\n"
        "'limpet kubernetes manifest --help' lists the options.",
    .operands_max = -1,
    .verbatim = true,
    .run = run_kubernetes,
};

const Command command_mcp = {
    .name = "mcp",
    .usage = "[OPTIONS]",
    .summary = "Serves the Model Context Protocol on standard input and output",
    .details =
        "\nAn MCP client, such as an editor, starts it. Needs the Python package with the extra 'mcp' in python3, or in\n"
        "the Python that LIMPET_PYTHON names.\n"
        "'limpet mcp --help' lists the options.",
    .operands_max = -1,
    .verbatim = true,
    .run = run_mcp,
};

const Command command_serve = {
    .name = "serve",
    .usage = "[OPTIONS]",
    .summary = "Serves sessions over HTTP: a REST interface and a web page",
    .details =
        "\nNeeds the Python package with the extra 'serve' in python3, or in the Python that LIMPET_PYTHON names.\n"
        "'limpet serve --help' lists the options.",
    .operands_max = -1,
    .verbatim = true,
    .run = run_serve,
};

const Command command_key = {
    .name = "key",
    .usage = "create|rotate NAME [--expires TIME] | ls | revoke NAME [ID]",
    .summary = "Makes, lists and revokes keys of limpet serve",
    .details = "\nNeeds the Python package in python3, or in the Python that LIMPET_PYTHON names.\n"
               "'limpet key --help' lists the options.",
    .operands_max = -1,
    .verbatim = true,
    .run = run_key,
};
