/* Artifacts of a controller on another machine, copied to this one before a call returns. limpet/_bringing.py
 * has the same names for Python. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "clients/c/digest.h"
#include "clients/c/landing.h"
#include "clients/c/result.h"

#define DEFAULT "limpet-artifacts"

typedef struct Bringing {
    LimpetClient *client;
    LimpetResult *result;
    const char *directory; /* absolute */
    Landing landing;
    LimpetArtifact *brought;
    LimpetSkipped *skipped;
    size_t n_brought, n_skipped;
    Arena arena;
} Bringing;

/* Appends a name that is one of this machine and leads nowhere, whatever the other machine says. */
static int append_name(Buf *to, const char *name, size_t size)
{
    static const char plain[] = " !#$&'()+,-.=@[]^_`{}~";
    bool dots = strspn(name, ".") >= size;
    int r = to->size > 0 ? buf_append(to, "/", 1) : 0;

    for (size_t i = 0; r == 0 && i < size; i++) {
        unsigned char c = (unsigned char)name[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        char escaped[4];

        snprintf(escaped, sizeof(escaped), "%%%02X", c);
        r = letter || (strchr(plain, c) && !(c == '.' && dots)) ? buf_append(to, &name[i], 1)
                                                                : buf_append(to, escaped, 3);
    }
    return r;
}

static int append_names(Buf *to, const char *path)
{
    int r = 0;

    for (size_t size; r == 0 && *path; path += size) {
        path += strspn(path, "/");
        size = strcspn(path, "/");
        if (size > 0)
            r = append_name(to, path, size);
    }
    return r;
}

/* Below the directory: SESSION/NAME, or RUN_ID/NAME for a call without a session. */
static int place_of(const LimpetResult *result, const char *path, Buf *ret)
{
    static const char *const prefixes[] = {"/session/artifacts/", "/work/artifacts/"};
    int r = append_names(ret, result->session ? result->session : result->run_id);

    for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
        if (strncmp(path, prefixes[i], strlen(prefixes[i])) == 0) {
            path += strlen(prefixes[i]);
            break;
        }
    if (!r)
        r = append_names(ret, path);
    return r ? r : buf_append(ret, "", 1);
}

/* Tells whether the artifact has been copied already. */
static bool is_there(const char *local, const LimpetArtifact *artifact)
{
    _cleanup_(closep) int fd = open(local, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char found[DIGEST_HEX_SIZE];
    struct stat status;

    return fd >= 0 && artifact->sha256 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
           (uint64_t)status.st_size == artifact->size && digest_of_file(fd, found) == 0 &&
           strcmp(found, artifact->sha256) == 0;
}

static int copy(Bringing *bringing, const LimpetArtifact *artifact, const char *place)
{
    LandingFile file;
    int r = landing_file(&bringing->landing, place, 0644, &file);

    return r < 0 ? r
                 : landing_file_end(&file,
                                    artifact_fetch(bringing->client, bringing->result, artifact, file.fd));
}

static void skip(Bringing *bringing, const LimpetArtifact *artifact, const char *local, int r)
{
    Problem *problem = &bringing->client->problem;
    char *reason = NULL;

    if (asprintf(&reason, "it could not be copied to %s: %s", local,
                 problem->code ? problem->text : strerror(-r)) < 0)
        reason = NULL;
    bringing->skipped[bringing->n_skipped++] = (LimpetSkipped){
        artifact->path, arena_text(&bringing->arena, text_of(reason ? reason : "out of memory"))};
    free(reason);
    *problem = PROBLEM_NULL;
}

static int bring(Bringing *bringing, const LimpetArtifact *artifact)
{
    _cleanup_(buf_deinit) Buf place = BUF_NULL;
    _cleanup_(freep) char *local = NULL;
    LimpetArtifact brought = *artifact;
    int r = place_of(bringing->result, artifact->path, &place);

    if (r < 0)
        return r;
    if (asprintf(&local, "%s/%s", bringing->directory, (const char *)buf_head(&place)) < 0) {
        local = NULL;
        return -ENOMEM;
    }
    if (!is_there(local, artifact))
        r = copy(bringing, artifact, (const char *)buf_head(&place));
    if (r < 0 && bringing->client->problem.code == ERR_UNAVAILABLE)
        return r;
    if (r < 0) {
        skip(bringing, artifact, local, r);
        return 0;
    }
    brought.host_path = arena_text(&bringing->arena, text_of(local));
    bringing->brought[bringing->n_brought++] = brought;
    return 0;
}

static int bring_all(Bringing *bringing)
{
    LimpetResult *result = bringing->result;
    int r = landing_init(&bringing->landing, bringing->directory);

    bringing->brought = arena_new(&bringing->arena, result->n_artifacts, sizeof(*bringing->brought));
    bringing->skipped =
        arena_new(&bringing->arena, result->n_artifacts + result->n_skipped, sizeof(*bringing->skipped));
    if (bringing->arena.failed)
        return -ENOMEM;
    if (result->n_skipped > 0)
        memcpy(bringing->skipped, result->skipped, result->n_skipped * sizeof(*bringing->skipped));
    bringing->n_skipped = result->n_skipped;
    for (size_t i = 0; i < result->n_artifacts; i++) {
        if (r < 0)
            skip(bringing, &result->artifacts[i], bringing->directory, r);
        else if (bring(bringing, &result->artifacts[i]) < 0)
            return -EPROTO;
    }
    return bringing->arena.failed ? -ENOMEM : 0;
}

static const char *directory_of(const LimpetClient *client)
{
    const char *given = secure_getenv("LIMPET_ARTIFACTS");

    if (client->artifacts)
        return client->artifacts;
    return given && *given ? given : DEFAULT;
}

static int make_absolute(const char *path, char **ret)
{
    _cleanup_(freep) char *here = *path == '/' ? NULL : getcwd(NULL, 0);

    if (*path != '/' && !here)
        return -errno;
    return asprintf(ret, "%s%s%s", here ? here : "", here ? "/" : "", path) < 0 ? -ENOMEM : 0;
}

int result_bring(LimpetClient *client, LimpetResult *result)
{
    const char *given = directory_of(client);
    _cleanup_(freep) char *directory = NULL;
    Bringing bringing = {
        .client = client, .result = result, .landing = LANDING_NULL, .arena = result_arena(result)};
    int r;

    if (!client->address.remote || result->n_artifacts == 0 || strcmp(given, "0") == 0)
        return 0;
    r = make_absolute(given, &directory);
    if (r < 0)
        return problem_set(&client->problem, ERR_INTERNAL, "%s: %s", given, strerror(-r));
    bringing.directory = directory;
    r = bring_all(&bringing);
    landing_deinit(&bringing.landing);
    if (r < 0)
        return r;
    result->artifacts = bringing.brought;
    result->n_artifacts = bringing.n_brought;
    result->skipped = bringing.skipped;
    result->n_skipped = bringing.n_skipped;
    return result_retell(result);
}

int limpet_set_artifacts(LimpetClient *client, const char *directory)
{
    char *copy = strdup(directory ? directory : "0");

    if (!copy)
        return client_result(client, -ENOMEM);
    free(client->artifacts);
    client->artifacts = copy;
    return client_result(client, 0);
}
