/* The files of a record on this machine: limpet_artifact(), and artifacts of a controller on another machine,
 * copied before a call returns. limpet/_copying/_bringing.py has the same names for Python. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "clients/c/client.h"
#include "clients/c/landing.h"
#include "clients/c/result.h"
#include "proto/base/fdio.h"

/* ---- SHA-256, as lower-case hexadecimal ----
 *
 * All return 0 or a negative errno. */

#define DIGEST_HEX_SIZE 65u

typedef struct Digest {
    struct evp_md_ctx_st *context;
} Digest;

#define DIGEST_NULL ((Digest){NULL})

static int digest_init(Digest *digest)
{
    if (!digest->context)
        digest->context = EVP_MD_CTX_new();
    return digest->context && EVP_DigestInit_ex(digest->context, EVP_sha256(), NULL) == 1 ? 0 : -ENOMEM;
}

static int digest_update(Digest *digest, const void *bytes, size_t size)
{
    return EVP_DigestUpdate(digest->context, bytes, size) == 1 ? 0 : -ENOMEM;
}

static int digest_finish(Digest *digest, char ret[static DIGEST_HEX_SIZE])
{
    uint8_t bytes[EVP_MAX_MD_SIZE];

    if (EVP_DigestFinal_ex(digest->context, bytes, NULL) != 1)
        return -ENOMEM;
    for (size_t i = 0; i < DIGEST_HEX_SIZE / 2; i++)
        snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

static void digest_deinit(Digest *digest)
{
    EVP_MD_CTX_free(digest->context);
    digest->context = NULL;
}

/* Finds the digest of a whole file. */
static int digest_of_file(int fd, char ret[static DIGEST_HEX_SIZE])
{
    _cleanup_(digest_deinit) Digest digest = DIGEST_NULL;
    uint8_t bytes[64 << 10];
    int r = lseek(fd, 0, SEEK_SET) < 0 ? -errno : digest_init(&digest);

    while (r == 0) {
        ssize_t n = read_whole(fd, bytes, sizeof(bytes));

        if (n <= 0)
            return n < 0 ? (int)n : digest_finish(&digest, ret);
        r = digest_update(&digest, bytes, (size_t)n);
    }
    return r;
}

/* ---- limpet_artifact() ---- */

typedef struct Fetching {
    LimpetClient *client;
    const LimpetResult *result;
    const LimpetArtifact *artifact;
    int fd;
    LimpetOnArtifact *tell; /* or NULL */
    Digest digest;
    uint64_t offset;
} Fetching;

static const LimpetArtifact *find(const LimpetResult *result, const char *path)
{
    for (size_t i = 0; i < result->n_artifacts; i++)
        if (strcmp(result->artifacts[i].path, path) == 0)
            return &result->artifacts[i];
    return NULL;
}

/* *ret: how many bytes there were; 0 at the end. */
static int fetch_piece(Fetching *fetching, size_t *ret)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    LimpetClient *client = fetching->client;
    const MsgPublished asked = {.run_id = text_of(fetching->result->run_id),
                                .path = text_of(fetching->artifact->path),
                                .offset = fetching->offset,
                                .size = LIMIT_FILE_CHUNK};
    ClientCall call = {.repeatable = true};
    MsgGetReply body;
    int r;

    client_begin(client, &call, MSG_ARTIFACT, MsgPublished, &asked);
    r = client_call_for(client, &call, &reply, &body, MsgGetReply);
    if (r)
        return r;
    r = write_all(fetching->fd, body.data.data, body.data.size);
    if (r < 0)
        return problem_set(&client->problem, ERR_INTERNAL, "cannot write the file: %s", strerror(-r));
    *ret = body.data.size;
    fetching->offset += body.data.size;
    if (fetching->tell && body.data.size > 0)
        fetching->tell(client->tell_context, fetching->artifact->path, fetching->offset, body.size);
    return digest_update(&fetching->digest, body.data.data, body.data.size);
}

static int check(Fetching *fetching)
{
    const char *expected = fetching->artifact->sha256;
    char found[DIGEST_HEX_SIZE];
    int r = digest_finish(&fetching->digest, found);

    if (r < 0 || (expected && strcmp(found, expected) == 0))
        return r;
    return problem_set(&fetching->client->problem, ERR_NO_SUCH_FILE,
                       "'%s' is not there as the call left it: a later call has replaced it",
                       fetching->artifact->path);
}

static int fetch(Fetching *fetching)
{
    size_t size = 1;
    int r = digest_init(&fetching->digest);

    while (r == 0 && size > 0)
        r = fetch_piece(fetching, &size);
    return r ? r : check(fetching);
}

static int artifact_fetch(LimpetClient *client, const LimpetResult *result, const LimpetArtifact *artifact,
                          int fd, LimpetOnArtifact *tell)
{
    Fetching fetching = {.client = client,
                         .result = result,
                         .artifact = artifact,
                         .fd = fd,
                         .tell = tell,
                         .digest = DIGEST_NULL};
    int r = fetch(&fetching);

    digest_deinit(&fetching.digest);
    return r;
}

int limpet_artifact(LimpetClient *client, const LimpetResult *result, const char *path, int fd)
{
    const LimpetArtifact *artifact = find(result, path);

    client->problem = PROBLEM_NULL;
    if (!artifact)
        return client_result(client, problem_set(&client->problem, ERR_NO_SUCH_FILE,
                                                 "the call has published no file '%s'", path));
    return client_result(client, artifact_fetch(client, result, artifact, fd, NULL));
}

/* ---- all artifacts of a call ---- */

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
                 : landing_file_end(&file, artifact_fetch(bringing->client, bringing->result, artifact,
                                                          file.fd, bringing->client->tell_artifact));
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

void limpet_set_artifacts_progress(LimpetClient *client, LimpetOnArtifact *tell, void *context)
{
    client->tell_artifact = tell;
    client->tell_context = context;
}
