#include "host/files/artifact_list.h"

#include <errno.h>
#include <string.h>

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
