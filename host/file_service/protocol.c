#include "host/file_service/protocol.h"

#include "proto/schema.h"

#define SCHEMA_FILE "host/file_service/protocol.def"
#include "proto/schema/as_tables.h"

static const JobType types[JOB_KINDS] = {
#define JOB(kind, request, answer, slow)                                                                     \
    [JOB_##kind] = {#kind, schema_of_##request, schema_of_##answer, slow},
    JOBS(JOB)
#undef JOB
};

const JobType *job_type(JobKind kind)
{
    return kind < JOB_KINDS && types[kind].name ? &types[kind] : NULL;
}
