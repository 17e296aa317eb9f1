/* limpet install */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "clients/c/cli/cli.h"
#include "proto/base/buf.h"
#include "proto/limits.h"

DEFINE_CLEANUP(LimpetInstalled *, limpet_installed_free);

typedef struct InstallValues {
    const char *file;
    double timeout;
    bool json, quiet, lock;
} InstallValues;

static const Option install_options[] = {
    OPTION_ROW('r', "requirement", OPTION_TEXT, InstallValues, file, "FILE",
               "also install the requirements in this file; it may not have pip options",
               .completes = COMPLETE_FILE),
    OPTION_ROW('t', "timeout", OPTION_SECONDS, InstallValues, timeout, "SECONDS", "time limit",
               .least = OPTION_ABOVE_ZERO, .value = "300"),
    OPTION_ROW('q', "quiet", OPTION_FLAG, InstallValues, quiet, NULL,
               "do not show what the installer writes"),
    OPTION_ROW(0, "lock", OPTION_FLAG, InstallValues, lock, NULL,
               "print what is there with hashes, as a requirements file"),
    OPTION_ROW(0, "json", OPTION_FLAG, InstallValues, json, NULL, "print what is there as one JSON object"),
};

static int fail_file(const char *path, int error)
{
    fprintf(stderr, "limpet: %s: %s\n", path, strerror(error));
    return EXIT_USAGE;
}

static int read_file(Buf *ret, const char *path)
{
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return fail_file(path, errno);
    do
        n = buf_read_fd(ret, fd, LIMIT_REQUIREMENTS + 1);
    while (n > 0 && ret->size <= LIMIT_REQUIREMENTS);
    return n < 0 ? fail_file(path, (int)-n) : 0;
}

/* The text of one requirements file, terminated. */
static int read_packages(Buf *ret, const char *file, char **operands, int n)
{
    int r = file ? read_file(ret, file) : 0;

    if (r == 0 && buf_append(ret, "\n", 1) < 0)
        r = EXIT_SANDBOX;
    for (int i = 0; r == 0 && i < n; i++)
        if (buf_append(ret, operands[i], strlen(operands[i])) < 0 || buf_append(ret, "\n", 1) < 0)
            r = EXIT_SANDBOX;
    if (r == 0 && buf_append(ret, "", 1) < 0)
        r = EXIT_SANDBOX;
    return r;
}

static void on_output(void *context, int stream, const char *bytes, size_t size)
{
    fwrite(bytes, 1, size, stderr);
    fflush(stderr);
}

static int print_installed(const LimpetInstalled *installed, const InstallValues *values)
{
    if (values->json)
        return cli_print_json(limpet_installed_json(installed));
    if (values->lock)
        fputs(installed->lock, stdout);
    for (size_t i = 0; !values->lock && i < installed->n_packages; i++)
        printf("%s %s\n", installed->packages[i].name, installed->packages[i].version);
    return 0;
}

static int run(const void *values, char **operands, int n)
{
    const InstallValues *given = values;
    _cleanup_(limpet_freep) LimpetClient *client = NULL;
    _cleanup_(limpet_installed_freep) LimpetInstalled *installed = NULL;
    _cleanup_(buf_deinit) Buf packages = BUF_NULL;
    int r = read_packages(&packages, given->file, operands + 1, n - 1);

    if (r)
        return r;
    client = cli_connect();
    if (!client)
        return EXIT_SANDBOX;
    const LimpetInstall install = {
        .session = operands[0],
        .packages = (const char *)buf_head(&packages),
        .timeout = given->timeout,
        .on_output = given->quiet ? NULL : on_output,
    };
    if (limpet_install(client, &install, &installed))
        return cli_fail(client);
    return print_installed(installed, given);
}

const Command command_install = {
    .name = "install",
    .usage = "[OPTIONS] SESSION [PACKAGE]...",
    .summary = "Installs Python packages in a running session",
    .details =
        "\nA PACKAGE is a requirement, such as polars or 'polars==1.*'. Wheels are installed by an installer "
        "in a\n"
        "container of its own, which reaches the package index and nothing else, and appear in the session "
        "at once.\n"
        "Prints the packages of the session.",
    .options = {install_options, ARRAY_SIZE(install_options)},
    .operands = {COMPLETE_SESSION, COMPLETE_NOTHING},
    .operands_min = 1,
    .operands_max = -1,
    .values_size = sizeof(InstallValues),
    .run = run,
};
