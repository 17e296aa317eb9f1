#include "clients/c/cli/colour.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLAIN "\033[0m"
#define DIM   "\033[2m"
#define CYAN  "\033[36m"
#define RED   "\033[31m"
#define BOLD  "\033[1;31m"

bool colour_wanted(FILE *file)
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
