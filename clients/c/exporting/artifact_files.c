#include "clients/c/exporting/artifact_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "clients/c/copying.h"
#include "clients/c/landing.h"
#include "clients/c/digest.h"
#include "clients/c/tree.h"

#define TOP "/session/artifacts/"

/* An artifact as one call left it. */
typedef struct MadeFile {
    LimpetExportedArtifact as_told;
    const char *host_path;
    size_t call; /* its place among the calls */
} MadeFile;

typedef struct MadeFiles {
    MadeFile *files;
    size_t n, capacity;
} MadeFiles;

/* ---- which there are ---- */

static const msgpack_object_map *find_info(const PastCall *call, Text path)
{
    const msgpack_object_map *infos = past_call_map(call, "artifact_info");

    for (uint32_t i = 0; infos && i < infos->size; i++) {
        Text other = text_of_object(&infos->ptr[i].key);

        if (text_compare(other, path) == 0 && infos->ptr[i].val.type == MSGPACK_OBJECT_MAP)
            return &infos->ptr[i].val.via.map;
    }
    return NULL;
}

static MadeFile describe(const PastCall *call, const msgpack_object_kv *pair, Arena *arena)
{
    const msgpack_object_map *info = find_info(call, text_of_object(&pair->key));
    const msgpack_object *size = info ? map_find(info, "size") : NULL;
    MadeFile made = {
        .as_told = {.path = arena_text(arena, text_of_object(&pair->key)),
                    .sha256 = info ? arena_text(arena, text_of_object(map_find(info, "sha256"))) : NULL,
                    .run_id = arena_text(arena, past_call_text(call, "run_id"))},
        .host_path = arena_text(arena, text_of_object(&pair->val)),
    };

    made.as_told.size = size && size->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? size->via.u64 : 0;
    past_call_count(call, &made.as_told.execution_count);
    return made;
}

static int add(MadeFiles *made, MadeFile file)
{
    size_t capacity = MAX(2 * made->capacity, (size_t)64);
    MadeFile *space;

    if (made->n == made->capacity) {
        space = realloc(made->files, capacity * sizeof(*space));
        if (!space)
            return -ENOMEM;
        made->files = space;
        made->capacity = capacity;
    }
    made->files[made->n++] = file;
    return 0;
}

static int compare(const void *a, const void *b)
{
    const MadeFile *one = a, *other = b;
    int r = strcmp(one->as_told.path, other->as_told.path);

    return r ? r : (one->call > other->call) - (one->call < other->call);
}

/* By path; of each the last one. */
static void keep_last(MadeFiles *made)
{
    size_t kept = 0;

    if (made->n > 0)
        qsort(made->files, made->n, sizeof(*made->files), compare);
    for (size_t i = 0; i < made->n; i++)
        if (i + 1 == made->n || strcmp(made->files[i].as_told.path, made->files[i + 1].as_told.path) != 0)
            made->files[kept++] = made->files[i];
    made->n = kept;
}

static int find_all(const PastCalls *past, Arena *arena, MadeFiles *ret)
{
    for (size_t i = 0; i < past->n; i++) {
        const msgpack_object_map *artifacts = past_call_map(&past->calls[i], "artifacts");

        for (uint32_t j = 0; artifacts && j < artifacts->size; j++) {
            MadeFile file = describe(&past->calls[i], &artifacts->ptr[j], arena);

            file.call = i;
            if (!file.as_told.path || !file.host_path || add(ret, file) < 0)
                return -ENOMEM;
        }
    }
    keep_last(ret);
    return 0;
}

/* ---- where they go ---- */

typedef struct ArtifactLanding {
    LimpetClient *client;
    const char *session, *directory;
    Landing landing;
} ArtifactLanding;

static int cannot_write(ArtifactLanding *to, const char *path, int r)
{
    return problem_set(&to->client->problem, ERR_BAD_REQUEST, "cannot write '%s/%s': %s", to->directory, path,
                       strerror(-r));
}

/* The controller's copy, where it can be read here. */
static int fill_from_host(ArtifactLanding *to, const MadeFile *made, int fd)
{
    _cleanup_(closep) int from = open(made->host_path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

    return from >= 0 && copy_rest(from, fd) == 0;
}

static int fill_from_sandbox(ArtifactLanding *to, const MadeFile *made, int fd)
{
    if (!limpet_files_read(to->client, to->session, made->as_told.path, fd))
        return 1;
    return to->client->problem.code == ERR_FILE_FAILED ? 0 : -EPROTO;
}

/* 1: it is there as the call made it. 0: what there is is another one, or none. */
static int land(ArtifactLanding *to, const MadeFile *made, const char *path,
                int (*fill)(ArtifactLanding *to, const MadeFile *made, int fd))
{
    char digest[DIGEST_HEX_SIZE] = "";
    LandingFile file;
    bool same;
    int r = landing_file(&to->landing, path, 0644, &file), filled;

    if (r < 0)
        return cannot_write(to, path, r);
    filled = fill(to, made, file.fd);
    if (filled > 0)
        r = digest_of_file(file.fd, digest);
    same = filled > 0 && r == 0 && made->as_told.sha256 && strcmp(digest, made->as_told.sha256) == 0;
    r = landing_file_end(&file, same ? 0 : r < 0 ? r : -ESTALE);
    if (filled < 0)
        return filled;
    if (r < 0 && r != -ESTALE)
        return cannot_write(to, path, r);
    return same;
}

static int land_artifact(ArtifactLanding *to, MadeFile *made, Arena *arena)
{
    const char *path = made->as_told.path + strlen(TOP);
    _cleanup_(freep) char *file = NULL;
    int r;

    if (strncmp(made->as_told.path, TOP, strlen(TOP)) != 0 || !tree_is_plain(path))
        return 0;
    r = land(to, made, path, fill_from_host);
    if (r == 0)
        r = land(to, made, path, fill_from_sandbox);
    if (r <= 0)
        return r;
    if (asprintf(&file, "%s/%s", to->directory, path) < 0) {
        file = NULL;
        return -ENOMEM;
    }
    made->as_told.file = arena_text(arena, text_of(file));
    return 0;
}

static int land_all(ArtifactLanding *to, MadeFiles *made, Arena *arena)
{
    int r = landing_init(&to->landing, to->directory);

    if (r < 0)
        return problem_set(&to->client->problem, ERR_BAD_REQUEST, "cannot write '%s': %s", to->directory,
                           strerror(-r));
    for (size_t i = 0; r == 0 && i < made->n; i++)
        r = land_artifact(to, &made->files[i], arena);
    landing_deinit(&to->landing);
    return r;
}

int artifact_files_export(LimpetClient *client, const char *session, const PastCalls *past,
                          const char *directory, Arena *arena, const LimpetExportedArtifact **ret,
                          size_t *ret_n)
{
    ArtifactLanding to = {
        .client = client, .session = session, .directory = directory, .landing = LANDING_NULL};
    LimpetExportedArtifact *told = NULL;
    MadeFiles made = {0};
    int r = find_all(past, arena, &made);

    if (r == 0)
        r = land_all(&to, &made, arena);
    if (r == 0)
        told = arena_new(arena, made.n, sizeof(*told));
    for (size_t i = 0; told && i < made.n; i++)
        told[i] = made.files[i].as_told;
    *ret = told;
    *ret_n = told ? made.n : 0;
    free(made.files);
    return r == 0 && arena->failed ? -ENOMEM : r;
}
