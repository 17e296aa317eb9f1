#include "clients/c/cli/repl/commands.h"

#include <stdio.h>
#include <string.h>
#include <wordexp.h>

static void help(Repl *repl, char **arguments, size_t n);

static void toggle_time(Repl *repl, char **arguments, size_t n)
{
    repl->time = !repl->time;
    printf("timing of cells is %s\n", repl->time ? "on" : "off");
}

static void quit(Repl *repl, char **arguments, size_t n)
{
    repl->quit = true;
    repl->keep = !repl->own;
}

static const ReplCommand repl_time = {
    .name = "time", .usage = "", .help = "turn the timing of cells on or off", .run = toggle_time};
static const ReplCommand repl_quit = {
    .name = "quit",
    .usage = "",
    .help = "leave the prompt; closes the session unless -s was given",
    .run = quit,
};
static const ReplCommand repl_help = {.name = "help", .usage = "", .help = "show this list", .run = help};

static const ReplCommand *const table[] = {
    &repl_vars, &repl_checkpoint, &repl_rollback, &repl_checkpoints, &repl_branch, &repl_commit, &repl_files,
    &repl_put,  &repl_get,        &repl_reset,    &repl_time,        &repl_quit,   &repl_help,
};

static void help(Repl *repl, char **arguments, size_t n)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        char usage[64];

        snprintf(usage, sizeof(usage), ":%s %s", table[i]->name, table[i]->usage);
        printf("  %-22s %s\n", usage, table[i]->help);
    }
    puts("A blank line ends a block. Tab completes, Ctrl-R searches the history, Ctrl-C interrupts a cell "
         "and\n"
         "keeps the variables, Ctrl-D leaves the prompt and keeps the session.");
}

static const ReplCommand *find(const char *name, size_t size)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        if (strlen(table[i]->name) == size && memcmp(table[i]->name, name, size) == 0)
            return table[i];
    return NULL;
}

static void run_words(Repl *repl, const ReplCommand *command, char **words, size_t n)
{
    if (n < command->min || n > command->max)
        fprintf(stderr, "limpet: usage: :%s%s%s\n", command->name, *command->usage ? " " : "",
                command->usage);
    else
        command->run(repl, words, n);
    fflush(stdout);
}

/* Arguments are words as a shell has them, with quotes, ~ and patterns, but no commands. */
void commands_run(Repl *repl, const char *line)
{
    size_t size = strcspn(line + 1, " \t\n");
    const ReplCommand *command = find(line + 1, size);
    wordexp_t words;

    if (!command) {
        fprintf(stderr, "limpet: unknown command ':%.*s'; :help lists the commands\n", (int)size, line + 1);
        return;
    }
    if (wordexp(line + 1 + size, &words, WRDE_NOCMD) != 0) {
        fprintf(stderr, "limpet: quote names with characters such as $ ; ( or |\n");
        return;
    }
    run_words(repl, command, words.we_wordv, words.we_wordc);
    wordfree(&words);
}

static void complete_command(const char *prefix, Words *ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        words_add(ret, table[i]->name, prefix);
    ret->from = strlen(prefix);
    ret->after = ' ';
}

void commands_complete(Repl *repl, const char *before, Words *ret)
{
    size_t size = strcspn(before + 1, " ");
    const char *rest = before + 1 + size, *word = strrchr(before, ' ');
    const ReplCommand *command = find(before + 1, size);
    size_t place = 0;

    if (!*rest) {
        complete_command(before + 1, ret);
        return;
    }
    if (!command || !command->complete)
        return;
    /* Words before the one at the cursor, less the command. */
    for (const char *c = rest; c < word; c++)
        place += *c == ' ' && c[1] != ' ';
    ret->from = strlen(word + 1);
    command->complete(repl, place, word + 1, ret);
}
