/* Files of templates in which something else than a controller has written: each is refused, or a template
 * whose id and name are those of files, and which can be written down again. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "host/template/templates.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use_env(const Template *tmpl)
{
    Buf env _cleanup_(buf_deinit) = BUF_NULL;

    if (template_env(&env, tmpl, NULL) < 0 || env.size == 0)
        abort();
}

static void use_names(const Template *tmpl)
{
    TemplateNames names;
    Buf row _cleanup_(buf_deinit) = BUF_NULL;
    const MsgTemplate said = template_to_wire(tmpl, &names);

    if (body_encode(&row, MsgTemplate, &said) < 0)
        abort();
    template_names_deinit(&names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Buf again _cleanup_(buf_deinit) = BUF_NULL;
    Problem problem = PROBLEM_NULL;
    Template *tmpl;

    if (stored_decode(&tmpl, data, size, &problem) < 0) {
        if (problem.code == ERR_NONE)
            abort();
        return 0;
    }
    if (!name_valid(text_of(tmpl->name)) || strlen(tmpl->id) != TEMPLATE_ID_SIZE - 1 || strchr(tmpl->id, '/'))
        abort();
    use_env(tmpl);
    use_names(tmpl);
    if (stored_encode(&again, tmpl) < 0)
        abort();
    template_unref(tmpl);
    return 0;
}
