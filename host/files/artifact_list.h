/* ArtifactList: what one call left behind, as users see it. */
#pragma once

#include "host/files/sha256.h"
#include "proto/base/base.h"

/* A constant; "application/octet-stream" when the extension says nothing. */
const char *mime_type(const char *name);

typedef struct Artifact {
    char *path;            /* in the container, any bytes but NUL */
    char *host_path;       /* of the published copy; NULL when skipped */
    uint64_t size;         /* bytes of the published copy */
    const char *mime_type; /* constant */
    char sha256[SHA256_HEX_SIZE];
    char *skipped; /* why there is no published copy; NULL when there is */
} Artifact;

typedef struct ArtifactList {
    Artifact *entries; /* by path */
    size_t n;
    size_t capacity;
    uint64_t omitted; /* more entries than a list may hold */
    bool incomplete;  /* the tree was too large, or memory too short, to find everything */
} ArtifactList;

ArtifactList *artifact_list_new(void);
ArtifactList *artifact_list_free(ArtifactList *list);
DEFINE_CLEANUP(ArtifactList *, artifact_list_free);

/* Appends an entry and takes over its strings, on failure (-ENOMEM) as well. */
int artifact_list_add(ArtifactList *list, Artifact *artifact);

/* Moves the entries of `from` behind those of `into` and frees `from`; either may be NULL. Returns the list
 * that has them all. */
ArtifactList *artifact_list_merge(ArtifactList *into, ArtifactList *from) __attribute__((warn_unused_result));

/* Returns the number of entries that have a published copy. */
size_t artifact_list_published(const ArtifactList *list);

void artifact_list_sort(ArtifactList *list);
