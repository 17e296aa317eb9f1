#include "clients/c/network.h"

#include <string.h>

#include "clients/c/client.h"

static int check(const LimpetBinding *binding, Problem *problem)
{
    if (!binding->url)
        return problem_set(problem, ERR_BAD_REQUEST, "bindings: %s has no url", binding->name);
    for (size_t i = 0; binding->headers && binding->headers[i]; i++)
        if (!strchr(binding->headers[i], ':'))
            return problem_set(problem, ERR_BAD_REQUEST,
                               "bindings: a header of %s does not have the form 'Name: value'", binding->name);
    return 0;
}

int bindings_check(const LimpetBinding *bindings, Problem *problem)
{
    int r = 0;

    for (size_t i = 0; r == 0 && bindings && bindings[i].name; i++)
        r = check(&bindings[i], problem);
    return r;
}

static size_t count(const char *const *texts)
{
    size_t n = 0;

    while (texts && texts[n])
        n++;
    return n;
}

static void write_headers(Writer *w, const char *const *headers)
{
    size_t n = count(headers);

    write_map(w, n);
    for (size_t i = 0; i < n; i++) {
        size_t name = strcspn(headers[i], ":"), space = strspn(headers[i] + name + 1, " \t");

        write_text_n(w, headers[i], name);
        write_text(w, headers[i] + name + 1 + space);
    }
}

static void write_bindings(Writer *w, const void *source)
{
    const LimpetBinding *bindings = source;
    size_t n = 0;

    while (bindings[n].name)
        n++;
    write_map(w, n);
    for (size_t i = 0; i < n; i++) {
        write_text(w, bindings[i].name);
        write_map(w, 2);
        write_key(w, "url");
        write_text(w, bindings[i].url);
        write_key(w, "headers");
        write_headers(w, bindings[i].headers);
    }
}

Value bindings_say(const LimpetBinding *bindings)
{
    return (Value){.write = bindings ? write_bindings : NULL, .source = bindings};
}

static void write_texts(Writer *w, const void *source)
{
    const char *const *texts = source;
    size_t n = count(texts);

    write_array(w, n);
    for (size_t i = 0; i < n; i++)
        write_text(w, texts[i]);
}

Value texts_say(const char *const *texts)
{
    return (Value){.write = texts ? write_texts : NULL, .source = texts};
}
