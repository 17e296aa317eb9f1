#include "host/files/artifact_list.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *extension;
    const char *type;
} types[] = {
    {"arrow", "application/vnd.apache.arrow.file"},
    {"avi", "video/x-msvideo"},
    {"bmp", "image/bmp"},
    {"bz2", "application/x-bzip2"},
    {"css", "text/css"},
    {"csv", "text/csv"},
    {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {"gif", "image/gif"},
    {"gz", "application/gzip"},
    {"h5", "application/x-hdf5"},
    {"hdf5", "application/x-hdf5"},
    {"htm", "text/html"},
    {"html", "text/html"},
    {"ipynb", "application/x-ipynb+json"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "text/javascript"},
    {"json", "application/json"},
    {"jsonl", "application/jsonl"},
    {"log", "text/plain"},
    {"md", "text/markdown"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"npy", "application/x-npy"},
    {"npz", "application/x-npz"},
    {"parquet", "application/vnd.apache.parquet"},
    {"pdf", "application/pdf"},
    {"pkl", "application/x-pickle"},
    {"png", "image/png"},
    {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    {"py", "text/x-python"},
    {"sqlite", "application/vnd.sqlite3"},
    {"svg", "image/svg+xml"},
    {"tar", "application/x-tar"},
    {"tex", "text/x-tex"},
    {"tif", "image/tiff"},
    {"tiff", "image/tiff"},
    {"toml", "application/toml"},
    {"tsv", "text/tab-separated-values"},
    {"txt", "text/plain"},
    {"wav", "audio/wav"},
    {"webp", "image/webp"},
    {"xls", "application/vnd.ms-excel"},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {"xml", "application/xml"},
    {"xz", "application/x-xz"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"zip", "application/zip"},
    {"zst", "application/zstd"},
};

const char *mime_type(const char *name)
{
    const char *dot = strrchr(name, '.');

    if (dot)
        for (size_t i = 0; i < ARRAY_SIZE(types); i++)
            if (strcasecmp(dot + 1, types[i].extension) == 0)
                return types[i].type;
    return "application/octet-stream";
}

/* ---- the list ---- */

static void artifact_deinit(Artifact *artifact)
{
    free(artifact->path);
    free(artifact->host_path);
    free(artifact->skipped);
}

ArtifactList *artifact_list_new(void)
{
    return calloc(1, sizeof(ArtifactList));
}

ArtifactList *artifact_list_free(ArtifactList *list)
{
    if (!list)
        return NULL;
    for (size_t i = 0; i < list->n; i++)
        artifact_deinit(&list->entries[i]);
    free(list->entries);
    free(list);
    return NULL;
}

static int reserve(ArtifactList *list, size_t n)
{
    size_t capacity = MAX(list->capacity, 8u);

    while (capacity < n)
        capacity *= 2;
    if (capacity == list->capacity)
        return 0;
    Artifact *entries = reallocarray(list->entries, capacity, sizeof(Artifact));
    if (!entries)
        return -ENOMEM;
    list->entries = entries;
    list->capacity = capacity;
    return 0;
}

int artifact_list_add(ArtifactList *list, Artifact *artifact)
{
    int r = artifact->path ? reserve(list, list->n + 1) : -ENOMEM;

    if (r < 0)
        artifact_deinit(artifact);
    else
        list->entries[list->n++] = *artifact;
    return r;
}

ArtifactList *artifact_list_merge(ArtifactList *into, ArtifactList *from)
{
    if (!into || !from)
        return into ? into : from;
    into->omitted += from->omitted;
    into->incomplete |= from->incomplete;
    if (reserve(into, into->n + from->n) < 0) {
        into->incomplete = true;
    } else if (from->n > 0) {
        memcpy(into->entries + into->n, from->entries, from->n * sizeof(Artifact));
        into->n += from->n;
        from->n = 0;
    }
    artifact_list_free(from);
    return into;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const Artifact *)a)->path, ((const Artifact *)b)->path);
}

void artifact_list_sort(ArtifactList *list)
{
    if (list->n > 1)
        qsort(list->entries, list->n, sizeof(Artifact), compare);
}

size_t artifact_list_published(const ArtifactList *list)
{
    size_t n = 0;

    for (size_t i = 0; i < list->n; i++)
        n += !list->entries[i].skipped;
    return n;
}
