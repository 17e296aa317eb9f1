/* limpet install and limpet template. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/show.h"
#include "proto/base/buf.h"
#include "proto/limits.h"

/* ---- limpet install ---- */

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
               "do not show the output of the installer"),
    OPTION_ROW(0, "lock", OPTION_FLAG, InstallValues, lock, NULL,
               "print the installed packages with hashes, as a requirements file"),
    OPTION_ROW(0, "json", OPTION_FLAG, InstallValues, json, NULL, "print the installed packages as JSON"),
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

static int run_install(const void *values, char **operands, int n)
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
        "\nA PACKAGE is a requirement, such as polars or 'polars==1.*'. Wheels are installed by an installer in a\n"
        "container of its own, which reaches the package index and nothing else, and appear in the session at once.\n"
        "Prints the packages of the session.",
    .options = {install_options, ARRAY_SIZE(install_options)},
    .operands = {COMPLETE_SESSION, COMPLETE_NOTHING},
    .operands_min = 1,
    .operands_max = -1,
    .values_size = sizeof(InstallValues),
    .run = run_install,
};

/* ---- limpet template ---- */

/* Seconds that a sandbox for files outlives a command which is killed while it fills it. */
#define HOLDER_TTL 600

typedef struct TemplateValues {
    const char *from, *files, *image, *setup, *packages;
    const char *const *env;
    bool replace, json;
} TemplateValues;

static const Option template_options[] = {
    OPTION_ROW(0, "from", OPTION_TEXT, TemplateValues, from, "SESSION",
               "create: take its /session, and its image and environment if none are given",
               .completes = COMPLETE_SESSION),
    OPTION_ROW(0, "files", OPTION_TEXT, TemplateValues, files, "DIRECTORY",
               "create: take the contents of a local directory for /session",
               .completes = COMPLETE_DIRECTORY),
    OPTION_ROW(0, "setup", OPTION_TEXT, TemplateValues, setup, "FILE",
               "create: Python code to run in each session; - is standard input", .completes = COMPLETE_FILE),
    OPTION_ROW(0, "image", OPTION_TEXT, TemplateValues, image, "IMAGE", "create: image of the sessions"),
    OPTION_ROW(0, "packages", OPTION_TEXT, TemplateValues, packages, "REQUIREMENTS",
               "create: Python packages of the sessions, one requirement a line",
               .completes = COMPLETE_NOTHING),
    OPTION_ROW(0, "env", OPTION_PAIRS, TemplateValues, env, "NAME=VALUE",
               "create: environment variable for the code; may be repeated"),
    OPTION_ROW(0, "replace", OPTION_FLAG, TemplateValues, replace, NULL,
               "create: replace a template of that name"),
    OPTION_ROW(0, "json", OPTION_FLAG, TemplateValues, json, NULL, "ls: print the list as JSON"),
};

/* ---- create ---- */

/* Terminated. */
static int read_setup(const char *file, Buf *ret)
{
    int r = code_read(file, ret);

    if (r)
        return r;
    if (buf_append(ret, "", 1) < 0)
        return code_complain(file, ENOMEM);
    if (strlen((const char *)buf_head(ret)) + 1 == ret->size)
        return 0;
    fprintf(stderr, "limpet: %s: the code has a null character\n", file);
    return EXIT_USAGE;
}

static int make(LimpetClient *client, const LimpetTemplateSource *source)
{
    _cleanup_(freep) char *traceback = NULL;

    if (limpet_template(client, source, &traceback) == 0)
        return 0;
    if (traceback && *traceback)
        colour_traceback(stderr, traceback);
    return cli_fail(client);
}

static int check_directory(const char *path)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return code_complain(path, errno);
    return S_ISDIR(st.st_mode) ? 0 : code_complain(path, ENOTDIR);
}

/* A session of its own holds files and packages until the template has them. */
static int make_with_holder(LimpetClient *client, const TemplateValues *values, LimpetTemplateSource *source)
{
    const LimpetOptions options = {
        .image = source->image, .ttl = HOLDER_TTL, .checkpoint = "off", .packages = values->packages};
    uint64_t random;
    char name[40];
    int r;

    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        return code_complain(source->name, EIO);
    snprintf(name, sizeof(name), "template-%016" PRIx64, random);
    if (limpet_open(client, name, &options, NULL))
        return cli_fail(client);
    source->session = name;
    r = values->files ? cli_put(client, values->files, name, "/session") : 0;
    if (!r)
        r = make(client, source);
    source->session = NULL;
    limpet_close(client, name, NULL, NULL);
    return r;
}

static int template_create(const TemplateValues *values, const char *name)
{
    _cleanup_(limpet_freep) LimpetClient *client = NULL;
    _cleanup_(buf_deinit) Buf setup = BUF_NULL;
    LimpetTemplateSource source = {.name = name,
                                   .session = values->from,
                                   .image = values->image,
                                   .env = values->env,
                                   .replace = values->replace};
    int r = values->setup ? read_setup(values->setup, &setup) : 0;

    if (!r && values->files)
        r = check_directory(values->files);
    if (!r && values->from && (values->files || values->packages)) {
        fprintf(stderr, "limpet: a template has its files and packages from a session or from what is named, "
                        "not from both\n");
        r = EXIT_USAGE;
    }
    if (r)
        return r;
    source.setup = values->setup ? (const char *)buf_head(&setup) : NULL;
    client = cli_connect();
    if (!client)
        return EXIT_SANDBOX;
    r = values->files || values->packages ? make_with_holder(client, values, &source) : make(client, &source);
    if (!r)
        printf("created %s\n", name);
    return r;
}

/* ---- ls and rm ---- */

static void add_row(Table *table, const LimpetTemplate *tmpl)
{
    time_t seconds = (time_t)tmpl->created;
    char size[16], when[24] = "";
    struct tm local;

    if (localtime_r(&seconds, &local))
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M", &local);
    table_add(table, "%s", tmpl->name);
    table_add(table, "%s", tmpl->image ? tmpl->image : "default");
    table_add(table, "%s", tmpl->has_files ? cli_size(size, sizeof(size), tmpl->files) : "-");
    table_add(table, "%s", tmpl->has_setup ? cli_size(size, sizeof(size), tmpl->setup) : "-");
    table_add(table, "%zu", tmpl->n_env);
    table_add(table, "%s", when);
}

static int show(const LimpetTemplates *list)
{
    static const Column columns[] = {
        {"TEMPLATE", false}, {"IMAGE", false}, {"FILES", true},
        {"SETUP", true},     {"ENV", true},    {"CREATED", false},
    };
    Table table = {.columns = columns, .n_columns = ARRAY_SIZE(columns)};

    for (size_t i = 0; i < list->n_templates; i++)
        add_row(&table, &list->templates[i]);
    return table_print(&table);
}

static int template_ls(const TemplateValues *values)
{
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    LimpetTemplates *list = NULL;
    int r;

    if (!client)
        return EXIT_SANDBOX;
    if (limpet_templates(client, &list))
        return cli_fail(client);
    r = values->json ? cli_print_json(limpet_templates_json(list)) : show(list);
    limpet_templates_free(list);
    return r;
}

static int template_rm(const char *name)
{
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();

    if (!client)
        return EXIT_SANDBOX;
    return limpet_remove_template(client, name) ? cli_fail(client) : 0;
}

static int run_template(const void *values, char **operands, int n)
{
    bool lists = strcmp(operands[0], "ls") == 0;

    if (lists && n == 1)
        return template_ls(values);
    if (strcmp(operands[0], "create") == 0 && n == 2)
        return template_create(values, operands[1]);
    if (strcmp(operands[0], "rm") == 0 && n == 2)
        return template_rm(operands[1]);
    fprintf(stderr,
            "limpet: write: limpet template create NAME, limpet template ls, or limpet template rm NAME\n");
    return EXIT_USAGE;
}

const Command command_template = {
    .name = "template",
    .usage = "[OPTIONS] create|ls|rm [NAME]",
    .summary = "Makes, lists and removes templates for sessions",
    .details =
        "\n`limpet open --template NAME` opens a session in which the files are in /session, the environment is\n"
        "set, and the setup code has run. `create` tries the template once and keeps it if that succeeds.\n"
        "`rm` does not affect sessions that were made from it.",
    .options = {template_options, ARRAY_SIZE(template_options)},
    .operands = {COMPLETE_CHOICE, COMPLETE_NOTHING},
    .choices = "create|ls|rm",
    .operands_min = 1,
    .operands_max = 2,
    .values_size = sizeof(TemplateValues),
    .run = run_template,
};
