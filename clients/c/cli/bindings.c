#include "clients/c/cli/bindings.h"

#include <string.h>

#include "proto/base/buf.h"

static size_t count(const char *const *texts)
{
    size_t n = 0;

    while (texts && texts[n])
        n++;
    return n;
}

LimpetBinding *bindings_free(LimpetBinding *bindings)
{
    for (size_t i = 0; bindings && bindings[i].name; i++) {
        for (size_t k = 0; bindings[i].headers && bindings[i].headers[k]; k++)
            free((char *)bindings[i].headers[k]);
        free((void *)bindings[i].headers);
        free((char *)bindings[i].name);
    }
    free(bindings);
    return NULL;
}

static int out_of_memory(void)
{
    fputs("limpet: out of memory\n", stderr);
    return EXIT_SANDBOX;
}

/* ---- what is in a header ---- */

static int append_variable(Buf *ret, const char *name, size_t size)
{
    char *terminated _cleanup_(freep) = strndup(name, size);
    const char *value = terminated ? getenv(terminated) : NULL;

    if (!terminated)
        return out_of_memory();
    if (value)
        return buf_append(ret, value, strlen(value)) < 0 ? out_of_memory() : 0;
    fprintf(stderr, "limpet: --header: the environment has no %s\n", terminated);
    return EXIT_USAGE;
}

static int expand(const char *text, char **ret)
{
    _cleanup_(buf_deinit) Buf expanded = BUF_NULL;
    int r = 0;

    while (r == 0 && *text) {
        const char *end = text[0] == '$' && text[1] == '{' ? strchr(text, '}') : NULL;

        if (end)
            r = append_variable(&expanded, text + 2, (size_t)(end - text) - 2);
        else if (buf_append(&expanded, text, 1) < 0)
            r = out_of_memory();
        text = end ? end + 1 : text + 1;
    }
    if (r == 0 && buf_append(&expanded, "", 1) < 0)
        r = out_of_memory();
    if (r == 0 && !(*ret = strdup((const char *)buf_head(&expanded))))
        r = out_of_memory();
    return r;
}

/* ---- the two lists ---- */

static int add_header(LimpetBinding *bindings, const char *header, size_t most)
{
    size_t name = strcspn(header, "="), n;
    LimpetBinding *of = bindings;
    const char **headers;

    while (of->name && (strlen(of->name) != name || strncmp(of->name, header, name) != 0))
        of++;
    if (!header[name] || !of->name || !strchr(header + name, ':')) {
        fputs("limpet: --header takes NAME='Header: value', and NAME has a --binding\n", stderr);
        return EXIT_USAGE;
    }
    if (!of->headers)
        of->headers = calloc(most + 1, sizeof(*of->headers));
    headers = (const char **)of->headers;
    if (!headers)
        return out_of_memory();
    n = count(headers);
    return expand(header + name + 1, (char **)&headers[n]);
}

static int add_binding(LimpetBinding *ret, const char *binding)
{
    size_t name = strcspn(binding, "=");

    if (!binding[name] || name == 0) {
        fprintf(stderr, "limpet: --binding takes NAME=URL, not '%s'\n", binding);
        return EXIT_USAGE;
    }
    ret->url = binding + name + 1;
    ret->name = strndup(binding, name);
    return ret->name ? 0 : out_of_memory();
}

int bindings_read(const char *const *bindings, const char *const *headers, LimpetBinding **ret)
{
    _cleanup_(bindings_freep) LimpetBinding *read = NULL;
    size_t n = count(bindings), n_headers = count(headers);
    int r = 0;

    if (n + n_headers == 0)
        return 0;
    read = calloc(n + 1, sizeof(*read));
    if (!read)
        return out_of_memory();
    for (size_t i = 0; r == 0 && i < n; i++)
        r = add_binding(&read[i], bindings[i]);
    for (size_t i = 0; r == 0 && i < n_headers; i++)
        r = add_header(read, headers[i], n_headers);
    if (r == 0)
        *ret = take(read);
    return r;
}
