#include "clients/c/exporting/versions.h"

#include <errno.h>

#define SECONDS 60

/* As the Python client has it, which passes over the same command in what a session did. */
const char *const versions_command[] = {
    "python3",
    "-c",
    "\n"
    "import importlib.metadata, json, os, platform\n"
    "packages = {found.metadata[\"Name\"]: found.version for found in importlib.metadata.distributions()}\n"
    "lock = os.path.join(os.environ.get(\"PYTHONUSERBASE\", \"\"), \"share\", \"limpet\", "
    "\"packages.lock\")\n"
    "requirements = open(lock).read().splitlines() if os.path.exists(lock) else []\n"
    "print(json.dumps({\"python\": platform.python_version(), \"packages\": packages, \"requirements\": "
    "requirements}))\n",
    NULL,
};

static bool are_versions(struct json_object *packages)
{
    json_object_object_foreach(packages, name, version)
    {
        (void)name;
        if (!json_object_is_type(version, json_type_string))
            return false;
    }
    return true;
}

static int read_versions(Versions *ret, const LimpetResult *result, Problem *problem)
{
    struct json_object *python;

    if (result->status != LIMPET_OK)
        return problem_set(problem, ERR_PROTOCOL_MISMATCH, "the sandbox does not tell its packages: %s",
                           result->error_message ? result->error_message : result->status_name);
    ret->said = json_read(result->stdout_text, result->stdout_size);
    ret->packages = json_member(ret->said, "packages", json_type_object);
    python = json_member(ret->said, "python", json_type_string);
    ret->requirements = json_member(ret->said, "requirements", json_type_array);
    if (!ret->packages || !python || !are_versions(ret->packages) || !ret->requirements ||
        !json_are_texts(ret->requirements))
        return problem_set(problem, ERR_PROTOCOL_MISMATCH,
                           "the sandbox says what cannot be read of its packages");
    ret->python = json_text(python);
    return 0;
}

int versions_ask(Versions *ret, LimpetClient *client, const char *session)
{
    const LimpetExec exec = {.session = session, .program = {.argv = versions_command}, .timeout = SECONDS};
    LimpetResult *result = NULL;
    int r;

    if (limpet_exec(client, &exec, &result))
        return -EPROTO;
    r = read_versions(ret, result, &client->problem);
    limpet_result_free(result);
    return r;
}

void versions_deinit(Versions *versions)
{
    json_object_put(versions->said);
    *versions = VERSIONS_NULL;
}
