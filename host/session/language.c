#include "host/session/language.h"

#include <strings.h>

/* From the descriptions in guest/languages, when this is built. */
static const struct {
    const char *alias, *name;
} aliases[] = {
#define ALIAS(alias, name) {alias, name},
#include "languages.inc"
#undef ALIAS
};

static bool is_same(Text asked, const char *alias)
{
    return asked.size == strlen(alias) && strncasecmp(asked.data, alias, asked.size) == 0;
}

Text language_name(Text asked)
{
    Text name = asked;

    for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
        if (asked.data && is_same(asked, aliases[i].alias))
            name = text_of(aliases[i].name);
    return text_equal(name, "python") ? (Text){0} : name;
}
