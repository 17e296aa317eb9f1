#include "clients/c/cli/repl/cell.h"

#include <stdio.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/colour.h"
#include "clients/c/cli/input.h"
#include "clients/c/cli/show.h"
#include "clients/c/cli/sigint.h"

typedef struct ShownCell {
    Repl *repl;
    char last; /* character on the terminal; 0: none yet */
} ShownCell;

static void on_output(void *context, int stream, const char *bytes, size_t size)
{
    ShownCell *cell = context;
    FILE *file = stream == 1 ? stdout : stderr;

    fwrite(bytes, 1, size, file);
    fflush(file);
    cell->last = bytes[size - 1];
}

static void end_line(ShownCell *cell)
{
    if (cell->last && cell->last != '\n')
        putchar('\n');
    cell->last = '\n';
    fflush(stdout);
}

/* An update of a display, as of a progress bar, would be one more line each time. */
static void on_display(void *context, const LimpetDisplay *display, bool update)
{
    ShownCell *cell = context;

    if (update)
        return;
    end_line(cell);
    figures_show(&cell->repl->figures, display);
}

/* The line that is typed ends with a line end, which the terminal shows. */
static char *on_input(void *context, const char *prompt, bool secret)
{
    ShownCell *cell = context;
    char *line = input_answer(NULL, prompt, secret);

    cell->last = line ? '\n' : ' ';
    return line;
}

/* A stack of Python says enough of an interrupt that was asked for here. */
static void show_end(const LimpetResult *result)
{
    if (result->status == LIMPET_INTERRUPTED && *result->traceback)
        colour_traceback(stderr, result->traceback);
    else
        show_error(result);
    show_state(result);
    show_files(result);
}

static void show_result(const Repl *repl, ShownCell *cell, const LimpetResult *result)
{
    end_line(cell);
    if (result->result)
        printf("%s\n", result->result);
    fflush(stdout);
    show_end(result);
    if (repl->time)
        printf("%.3g s\n", result->duration);
}

void cell_run(Repl *repl, const char *code, size_t size)
{
    _cleanup_(limpet_result_freep) LimpetResult *result = NULL;
    ShownCell cell = {.repl = repl};
    LimpetRun run = {
        .session = repl->session,
        .code = code,
        .code_size = size,
        .timeout = repl->timeout,
        .on_output = on_output,
        .on_display = on_display,
        .on_input = on_input,
        .context = &cell,
    };
    int r;

    if (repl->gone && repl_open(repl))
        return;
    run.instance = *repl->instance ? repl->instance : NULL;
    sigint_catch(repl->client, false);
    r = limpet_run(repl->client, &run, &result);
    sigint_release();
    if (!r) {
        show_result(repl, &cell, result);
        return;
    }
    end_line(&cell);
    repl_complain(repl);
}
