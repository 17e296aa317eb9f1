#include "clients/c/cli/show.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clients/c/cli/cli.h"
#include "proto/base/clock.h"

/* ---- tables ---- */

/* The text with its control characters made visible. */
static char *cell_new(const char *text)
{
    char *cell = NULL;
    size_t size;
    FILE *file = open_memstream(&cell, &size);

    if (!file)
        return NULL;
    cli_print_name(file, text);
    if (fclose(file) == 0)
        return cell;
    free(cell);
    return NULL;
}

/* Characters of UTF-8; a wide one counts as one all the same. */
static size_t width_of(const char *text)
{
    size_t width = 0;

    for (; *text; text++)
        width += (*text & 0xc0) != 0x80;
    return width;
}

static int append(Table *table, const char *text)
{
    char **grown = realloc(table->cells, (table->n_cells + 1) * sizeof(*grown));
    size_t *width = &table->widths[table->n_cells % table->n_columns];

    if (!grown)
        return -ENOMEM;
    table->cells = grown;
    grown[table->n_cells] = cell_new(text);
    if (!grown[table->n_cells])
        return -ENOMEM;
    *width = MAX(*width, width_of(grown[table->n_cells]));
    table->n_cells++;
    return 0;
}

void table_add(Table *table, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;

    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    va_end(arguments);
    if (!text || append(table, text) < 0)
        table->failed = true;
    free(text);
}

static void print_cell(const Table *table, size_t column, const char *text)
{
    const Column *c = &table->columns[column];
    int padding = (int)(MAX(table->widths[column], width_of(c->title)) - width_of(text));
    bool last = column + 1 == table->n_columns;

    if (c->right)
        printf("%*s%s", padding, "", text);
    else
        printf("%s%*s", text, last ? 0 : padding, "");
    fputs(last ? "\n" : "  ", stdout);
}

int table_print(Table *table)
{
    int status = 0;

    if (table->failed) {
        fprintf(stderr, "limpet: out of memory\n");
        status = EXIT_SANDBOX;
    } else {
        for (size_t i = 0; i < table->n_columns; i++)
            print_cell(table, i, table->columns[i].title);
        for (size_t i = 0, column = 0; i < table->n_cells; i++) {
            print_cell(table, column, table->cells[i]);
            column = column + 1 < table->n_columns ? column + 1 : 0;
        }
    }
    for (size_t i = 0; i < table->n_cells; i++)
        free(table->cells[i]);
    free(table->cells);
    return status;
}

/* ---- colours ---- */

#define PLAIN "\033[0m"
#define DIM   "\033[2m"
#define CYAN  "\033[36m"
#define RED   "\033[31m"
#define BOLD  "\033[1;31m"

static bool colour_wanted(FILE *file)
{
    const char *forbidden = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");

    return isatty(fileno(file)) && !(forbidden && *forbidden) && terminal && strcmp(terminal, "dumb") != 0;
}

static bool starts_with(const char *text, size_t size, const char *prefix)
{
    return size >= strlen(prefix) && memcmp(text, prefix, strlen(prefix)) == 0;
}

/* Marks below a source line, as "    ~~^~~". */
static bool is_marks(const char *line, size_t size)
{
    size_t blank = 0;

    while (blank < size && line[blank] == ' ')
        blank++;
    return blank > 0 && blank < size && strspn(line + blank, "^~ ") >= size - blank;
}

static const char *colour_of(const char *line, size_t size)
{
    if (starts_with(line, size, "Traceback ") || starts_with(line, size, "  [Previous line"))
        return DIM;
    if (starts_with(line, size, "  File "))
        return CYAN;
    if (is_marks(line, size))
        return RED;
    return size > 0 && *line != ' ' ? BOLD : "";
}

static void print_line(FILE *file, const char *line, size_t size)
{
    const char *colour = colour_of(line, size);
    /* The name in "ValueError: text" stands out. */
    size_t name = strcmp(colour, BOLD) == 0 ? strcspn(line, ":\n") : size;

    fprintf(file, "%s%.*s%s%.*s\n", colour, (int)name, line, *colour ? PLAIN : "", (int)(size - name),
            line + name);
}

void colour_traceback(FILE *file, const char *traceback)
{
    bool wanted = colour_wanted(file);

    while (*traceback) {
        size_t size = strcspn(traceback, "\n");

        if (wanted)
            print_line(file, traceback, size);
        else
            fprintf(file, "%.*s\n", (int)size, traceback);
        traceback += size + (traceback[size] == '\n');
    }
}

/* ---- what several commands print ---- */

/* "1000x3" */
static void add_shape(Table *table, const LimpetVariable *variable)
{
    char text[256] = "";
    size_t used = 0;

    for (size_t i = 0; i < variable->n_shape && used < sizeof(text); i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%" PRIu64, i ? "x" : "",
                                 variable->shape[i]);
    table_add(table, "%s", *text ? text : "-");
}

static void add_variable(Table *table, const LimpetVariable *variable)
{
    char size[24];

    table_add(table, "%s", variable->name);
    table_add(table, "%s", variable->type);
    add_shape(table, variable);
    table_add(table, "%s", variable->dtype ? variable->dtype : "-");
    table_add(table, "%s", variable->has_bytes ? cli_size(size, sizeof(size), variable->bytes) : "-");
    table_add(table, "%s", variable->repr ? variable->repr : "-");
}

int show_variables(const LimpetNamespace *names)
{
    static const Column columns[] = {
        {"NAME", false},  {"TYPE", false}, {"SHAPE", false},
        {"DTYPE", false}, {"SIZE", true},  {"VALUE", false},
    };
    Table table = {.columns = columns, .n_columns = ARRAY_SIZE(columns)};
    int status;

    for (size_t i = 0; i < names->n_variables; i++)
        add_variable(&table, &names->variables[i]);
    status = table_print(&table);
    if (!status && names->more > 0)
        printf("and %" PRIu64 " more\n", names->more);
    return status;
}

#define NOBODY SIZE_MAX

/* The place of a checkpoint's parent, which is older and so before it; NOBODY when it is not kept. */
static size_t parent_of(const LimpetCheckpoints *list, size_t child)
{
    const char *parent = list->checkpoints[child].parent;

    for (size_t i = 0; parent && i < child; i++)
        if (strcmp(list->checkpoints[i].id, parent) == 0)
            return i;
    return NOBODY;
}

static void add_checkpoint(Table *table, const LimpetCheckpoint *c, int depth)
{
    char memory[24], age[48];

    table_add(table, "%*s%s", 2 * depth, "", c->id);
    table_add(table, "%s", c->name ? c->name : "-");
    table_add(table, "%s", c->session);
    table_add(table, "%" PRIu64, c->execution_count);
    table_add(table, "%s", cli_size(memory, sizeof(memory), c->private_bytes));
    table_add(table, "%s", cli_seconds(age, sizeof(age), clock_unix() - c->created));
    table_add(table, "%s%s", c->automatic ? "automatic" : "manual", c->files ? ", with /session" : "");
}

static void add_children(Table *table, const LimpetCheckpoints *list, size_t parent, int depth)
{
    for (size_t i = 0; i < list->n_checkpoints; i++)
        if (parent_of(list, i) == parent) {
            add_checkpoint(table, &list->checkpoints[i], depth);
            add_children(table, list, i, depth + 1);
        }
}

int show_checkpoints(const LimpetCheckpoints *list)
{
    static const Column columns[] = {
        {"CHECKPOINT", false}, {"NAME", false}, {"SESSION", false}, {"RUNS", true},
        {"MEMORY", true},      {"AGE", true},   {"TAKEN", false},
    };
    Table table = {.columns = columns, .n_columns = ARRAY_SIZE(columns)};

    add_children(&table, list, NOBODY, 0);
    return table_print(&table);
}

void show_taken(const LimpetTaken *taken)
{
    const LimpetCheckpoint *c = &taken->checkpoint;

    printf("%s", c->id);
    if (c->name)
        printf(" '%s'", c->name);
    printf(", after call %" PRIu64 "%s\n", c->execution_count, c->files ? ", with /session" : "");
    cli_print_notes("dropped to make room", taken->dropped, taken->n_dropped);
}

void show_rollback(const char *session, const LimpetRollback *back)
{
    printf("%s is as after call %" PRIu64 "%s; epoch %" PRIu64 "\n", session, back->execution_count,
           back->files_restored ? ", /session too" : "", back->epoch);
    cli_print_notes("not restored", back->not_restored, back->n_not_restored);
}

static void show_stream_between(const char *name, const char *text)
{
    if (*text)
        fprintf(stderr, "limpet: %s since the last call:\n%s%s", name, text,
                text[strlen(text) - 1] == '\n' ? "" : "\n");
}

/* Shows what was written before the call began, which is none of its output. */
static void show_between(const LimpetResult *result)
{
    if (!result->between_stdout)
        return;
    show_stream_between("stdout", result->between_stdout);
    show_stream_between("stderr", result->between_stderr);
    if (result->between_dropped)
        fprintf(stderr, "limpet: %" PRIu64 " more bytes since the last call were dropped\n",
                result->between_dropped);
}

/* An error that Python did not raise, as that the interpreter was killed, says this in its message. */
void show_state(const LimpetResult *result)
{
    bool told = result->error_name && !*result->traceback;

    if (!result->session)
        return;
    show_between(result);
    if (result->state == LIMPET_ROLLED_BACK && !told)
        fprintf(stderr, "limpet: rolled back: the variables are as they were after call %" PRIu64 "\n",
                result->rolled_back_to_count);
    if (result->state == LIMPET_LOST && !told)
        fprintf(stderr, "limpet: lost: the variables are gone; a new interpreter was started\n");
    cli_print_notes("not restored", result->not_restored, result->n_not_restored);
    cli_print_notes("not as it was saved", result->restored, result->n_restored);
}

void show_files(const LimpetResult *result)
{
    for (size_t i = 0; i < result->n_artifacts; i++) {
        cli_print_name(stderr, result->artifacts[i].path);
        fputs(" → ", stderr);
        cli_print_name(stderr, result->artifacts[i].host_path);
        fputc('\n', stderr);
    }
    for (size_t i = 0; i < result->n_skipped; i++) {
        cli_print_name(stderr, result->skipped[i].path);
        fputs(" was not published: ", stderr);
        cli_print_name(stderr, result->skipped[i].reason);
        fputc('\n', stderr);
    }
}

/* A traceback says all there is about a Python error. */
void show_error(const LimpetResult *result)
{
    if (!result->error_name)
        return;
    if (*result->traceback)
        colour_traceback(stderr, result->traceback);
    if (!*result->traceback || result->status != LIMPET_ERROR)
        fprintf(stderr, "limpet: %s: %s%s%s\n", result->status_name, result->error_name,
                *result->error_message ? ": " : "", result->error_message);
    if (result->status == LIMPET_TIMEOUT)
        fprintf(stderr, "limpet: the time limit was reached; -t SECONDS sets another\n");
}
