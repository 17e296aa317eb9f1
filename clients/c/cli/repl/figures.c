#include "clients/c/cli/repl/figures.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/fdio.h"

static const struct {
    const char *mime_type, *suffix;
} pictures[] = {
    {"image/png", "png"},
    {"image/svg+xml", "svg"},
    {"image/jpeg", "jpg"},
    {"application/pdf", "pdf"},
};

static const LimpetValue *find(const LimpetDisplay *display, const char *mime_type)
{
    for (size_t i = 0; i < display->n_values; i++)
        if (strcmp(display->values[i].mime_type, mime_type) == 0)
            return &display->values[i];
    return NULL;
}

static int make_directory(Figures *figures)
{
    const char *temporary = getenv("TMPDIR");

    if (figures->directory)
        return 0;
    if (asprintf(&figures->directory, "%s/limpet-figures-XXXXXX",
                 temporary && *temporary ? temporary : "/tmp") < 0) {
        figures->directory = NULL;
        return -ENOMEM;
    }
    if (mkdtemp(figures->directory))
        return 0;
    figures_deinit(figures);
    return -errno;
}

static int save(Figures *figures, const LimpetValue *value, const char *suffix, char **ret)
{
    _cleanup_(closep) int fd = -1;
    int r = make_directory(figures);

    if (r < 0)
        return r;
    if (asprintf(ret, "%s/%u.%s", figures->directory, ++figures->count, suffix) < 0) {
        *ret = NULL;
        return -ENOMEM;
    }
    fd = open(*ret, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? -errno : write_all(fd, value->data, value->size);
}

static void show_picture(Figures *figures, const LimpetDisplay *display)
{
    for (size_t i = 0; i < ARRAY_SIZE(pictures); i++) {
        const LimpetValue *value = find(display, pictures[i].mime_type);
        _cleanup_(freep) char *path = NULL;
        int r;

        if (!value || value->type == LIMPET_JSON)
            continue;
        r = save(figures, value, pictures[i].suffix, &path);
        if (r < 0)
            fprintf(stderr, "limpet: cannot save the figure: %s\n", strerror(-r));
        else
            printf("figure → %s\n", path);
        return;
    }
}

void figures_show(Figures *figures, const LimpetDisplay *display)
{
    const LimpetValue *text = find(display, "text/plain");

    if (text && text->type == LIMPET_TEXT && !display->is_result)
        printf("%s\n", text->data);
    if (!text && display->n_values > 0)
        printf("(a display of type %s)\n", display->values[0].mime_type);
    show_picture(figures, display);
    fflush(stdout);
}

void figures_deinit(Figures *figures)
{
    free(figures->directory);
    figures->directory = NULL;
}
