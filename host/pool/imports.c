/* The modules that spares import. */
#include <ctype.h>
#include <string.h>

#include "host/pool/internal.h"

/* The next name of the list; empty at the end. */
static Text next_import(const char **at)
{
    const char *from = *at + strspn(*at, ", ");
    size_t size = strcspn(from, ", ");

    *at = from + size;
    return (Text){from, size};
}

static bool is_module(Text name)
{
    for (size_t i = 0; i < name.size; i++)
        if (!isalnum((unsigned char)name.data[i]) && name.data[i] != '_' && name.data[i] != '.')
            return false;
    return name.size <= LIMIT_NOTE;
}

static size_t count_imports(const char *imports)
{
    size_t n = 0;

    while (next_import(&imports).size > 0)
        n++;
    return n;
}

int imports_check(const char *imports, Problem *problem)
{
    size_t n = count_imports(imports);
    Text name;

    if (n > LIMIT_IMPORTS)
        return problem_set(problem, ERR_BAD_REQUEST, "imports may name at most %u modules", LIMIT_IMPORTS);
    while ((name = next_import(&imports)).size > 0)
        if (!is_module(name))
            return problem_set(problem, ERR_BAD_REQUEST, "imports: '%.*s' is not a module name",
                               (int)MIN(name.size, LIMIT_NOTE), name.data);
    return 0;
}

static void write_imports(Writer *w, const void *source)
{
    const char *imports = source;
    Text name;

    write_array(w, count_imports(imports));
    while ((name = next_import(&imports)).size > 0)
        write_text_n(w, name.data, name.size);
}

Value imports_value(const char *imports)
{
    return (Value){.write = write_imports, .source = imports};
}
