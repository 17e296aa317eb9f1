#include "clients/c/cli/table.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "clients/c/cli/cli.h"

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
