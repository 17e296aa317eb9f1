#include "guest/supervisor/command_line.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/option.h"

/* Values of the command line. Its texts live as long as the program. */
static struct {
    char *link, *directory, *interpreter, *browser, *browser_socket;
    uint64_t uid, browser_uid;
    bool same_user, version;
    double orphan_timeout;
} given;

#define AT(member) offsetof(__typeof__(given), member)

static const Option rows[] = {
    {.name = "link",
     .type = OPTION_TEXT,
     .offset = AT(link),
     .argument = "DIR",
     .value = "/run/limpet",
     .help = "directory with sock, session and secret"},
    {.name = "directory",
     .type = OPTION_TEXT,
     .offset = AT(directory),
     .argument = "DIR",
     .value = SESSION_PATH,
     .help = "working directory of the code, with its files"},
    /* 0 would give the code the supervisor's powers; the last value means "no change" to setresuid. */
    {.name = "uid",
     .type = OPTION_COUNT,
     .offset = AT(uid),
     .least = 1,
     .most = UINT32_MAX - 1,
     .argument = "N",
     .value = "20001",
     .help = "user and group of the interpreter"},
    {.name = "browser-uid",
     .type = OPTION_COUNT,
     .offset = AT(browser_uid),
     .least = 1,
     .most = UINT32_MAX - 1,
     .argument = "N",
     .value = "20009",
     .help = "user of the browser"},
    {.name = "same-user",
     .type = OPTION_FLAG,
     .offset = AT(same_user),
     .help = "run the interpreter as the user of the supervisor, without protection"},
    {.name = "interpreter",
     .type = OPTION_TEXT,
     .offset = AT(interpreter),
     .argument = "PATH",
     .help = "path of the interpreter; if not set, limpet-interpreter next to this program"},
    {.name = "browser",
     .type = OPTION_TEXT,
     .offset = AT(browser),
     .argument = "PATH",
     .help = "program that runs the browser; if not set, limpet-browser next to this program"},
    {.name = "browser-socket",
     .type = OPTION_TEXT,
     .offset = AT(browser_socket),
     .argument = "PATH",
     .help = "where code asks for the browser; if not set, /run/limpet-browser, or nowhere with --same-user"},
    {.name = "orphan-timeout",
     .type = OPTION_SECONDS,
     .offset = AT(orphan_timeout),
     .least = OPTION_ABOVE_ZERO,
     .argument = "SEC",
     .value = "3600",
     .help = "end after this time without a controller"},
    {.name = "version", .type = OPTION_FLAG, .offset = AT(version), .help = "show the version"},
};

static const OptionTable table = {rows, ARRAY_SIZE(rows)};

static int refuse(const char *why)
{
    fprintf(stderr, "limpet-guest: %s\n", why);
    return -EINVAL;
}

static void print_row(void *out, const char *usage, const char *help)
{
    fprintf(out, "  %-22s %s\n", usage + strspn(usage, " "), help);
}

static void print_help(void)
{
    fputs("Usage: limpet-guest [OPTION]...\n"
          "Supervises the Python interpreter of a Limpet session, as process 1 of its sandbox.\n\n",
          stdout);
    option_table_describe(&table, print_row, stdout);
    print_row(stdout, "--help", "show this help");
}

/* The other programs are installed beside the supervisor. */
static int find_beside(char path[static LIMIT_PATH], const char *name)
{
    ssize_t n = readlink("/proc/self/exe", path, LIMIT_PATH - strlen(name) - 1);
    char *slash = n > 0 ? memrchr(path, '/', (size_t)n) : NULL;

    if (!slash)
        return refuse("cannot find the path of this program; use --interpreter and --browser");
    strcpy(slash + 1, name);
    return 0;
}

static int take_program(char path[static LIMIT_PATH], const char *chosen, const char *name)
{
    if (!chosen)
        return find_beside(path, name);
    if (chosen[0] != '/')
        return refuse("--interpreter and --browser must be absolute paths");
    if (strlen(chosen) >= LIMIT_PATH)
        return refuse("the path of --interpreter or --browser is too long");
    strcpy(path, chosen);
    return 0;
}

/* The supervisor changes its working directory, and the interpreter's: no path is relative. */
static int take_paths(CommandLine *ret)
{
    if (given.directory[0] != '/')
        return refuse("--directory must be an absolute path");
    ret->link = given.link;
    ret->directory = given.directory;
    ret->browser_socket = given.browser_socket;
    if (!ret->browser_socket && !given.same_user)
        ret->browser_socket = "/run/limpet-browser";
    int r = take_program(ret->interpreter, given.interpreter, "limpet-interpreter");
    return r < 0 ? r : take_program(ret->browser, given.browser, "limpet-browser");
}

int command_line_parse(CommandLine *ret, int argc, char **argv)
{
    CommandLine command_line = {0};
    Problem problem = PROBLEM_NULL;
    int r = option_table_defaults(&table, &given, &problem);

    if (r == 0)
        r = option_table_arguments(&table, &given, argc, argv, &problem);
    if (r == OPTION_HELP) {
        print_help();
        return 1;
    }
    if (r < 0)
        return refuse(problem.text);
    if (given.version) {
        puts("limpet-guest " LIMPET_VERSION);
        return 1;
    }
    if (r < argc) {
        fprintf(stderr, "limpet-guest: unexpected argument %s\n", argv[r]);
        return -EINVAL;
    }
    command_line.uid = (uid_t)given.uid;
    command_line.browser_uid = (uid_t)given.browser_uid;
    command_line.same_user = given.same_user;
    command_line.orphan_timeout = given.orphan_timeout;
    r = take_paths(&command_line);
    if (r == 0)
        *ret = command_line;
    return r;
}
