/* limpet_artifact(): a file that a call has published, from a controller whose paths mean nothing here. */
#include <string.h>

#include "clients/c/client.h"
#include "clients/c/digest.h"
#include "clients/c/result.h"
#include "proto/base/fdio.h"

typedef struct Fetching {
    LimpetClient *client;
    const LimpetResult *result;
    const LimpetArtifact *artifact;
    int fd;
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
    r = client_call(client, &call, &reply);
    if (!r)
        r = reply_decode(&body, MsgGetReply, &reply.message.body, &client->problem);
    if (r)
        return r;
    r = write_all(fetching->fd, body.data.data, body.data.size);
    if (r < 0)
        return problem_set(&client->problem, ERR_INTERNAL, "cannot write the file: %s", strerror(-r));
    *ret = body.data.size;
    fetching->offset += body.data.size;
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

int artifact_fetch(LimpetClient *client, const LimpetResult *result, const LimpetArtifact *artifact, int fd)
{
    Fetching fetching = {
        .client = client, .result = result, .artifact = artifact, .fd = fd, .digest = DIGEST_NULL};
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
    return client_result(client, artifact_fetch(client, result, artifact, fd));
}
