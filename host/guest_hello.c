#include "host/guest_hello.h"

#include <errno.h>
#include <string.h>

typedef struct Hello {
    uint64_t protocol;
    Text session, secret, peer;
    const msgpack_object_array *branches;
    const msgpack_object_map *running;
} Hello;

static const Field hello_fields[] = {
    FIELD(FIELD_UINT, Hello, protocol, true, 0),
    FIELD(FIELD_TEXT, Hello, session, true, LIMIT_SESSION_NAME),
    FIELD(FIELD_BYTES, Hello, secret, true, GUEST_SECRET_SIZE),
    FIELD(FIELD_TEXT, Hello, peer, true, 128),
    FIELD(FIELD_ARRAY, Hello, branches, true, 0),
    FIELD(FIELD_MAP, Hello, running, false, 0),
};

static const Field branch_fields[] = {
    FIELD(FIELD_UINT, GuestBranch, branch, true, 0),
    FIELD(FIELD_UINT, GuestBranch, epoch, true, 0),
    FIELD(FIELD_UINT, GuestBranch, execution_count, true, 0),
};

typedef struct Running {
    uint64_t id, branch, code_hash;
    Text run_id;
} Running;

static const Field running_fields[] = {
    FIELD(FIELD_UINT, Running, id, true, 0),
    FIELD(FIELD_UINT, Running, branch, true, 0),
    FIELD(FIELD_UINT, Running, code_hash, true, 0),
    FIELD(FIELD_TEXT, Running, run_id, true, LIMIT_RUN_ID),
};

bool run_id_valid(Text text)
{
    if (!text.data || text.size != LIMIT_RUN_ID)
        return false;
    for (size_t i = 0; i < text.size; i++)
        if (!strchr("0123456789abcdef", text.data[i]) || !text.data[i])
            return false;
    return true;
}

static bool has_branch(const GuestHello *hello, uint64_t branch)
{
    for (size_t i = 0; i < hello->branch_count; i++)
        if (hello->branches[i].branch == branch)
            return true;
    return false;
}

static int decode_branches(GuestHello *hello, const msgpack_object_array *branches, Problem *problem)
{
    if (branches->size == 0 || branches->size > ARRAY_SIZE(hello->branches))
        return problem_set(problem, ERR_BAD_REQUEST, "branches: %u of them", branches->size);
    for (uint32_t i = 0; i < branches->size; i++) {
        const msgpack_object *item = &branches->ptr[i];
        GuestBranch branch = {0};

        if (item->type != MSGPACK_OBJECT_MAP)
            return problem_set(problem, ERR_BAD_REQUEST, "branches: not an array of maps");
        if (fields_decode(&branch, branch_fields, ARRAY_SIZE(branch_fields), &item->via.map, problem) < 0)
            return -EPROTO;
        if ((i == 0) != (branch.branch == 0) || has_branch(hello, branch.branch))
            return problem_set(problem, ERR_BAD_REQUEST, "branches: each once, and 0 first");
        hello->branches[hello->branch_count++] = branch;
    }
    return 0;
}

static int decode_running(GuestHello *hello, const msgpack_object_map *body, Problem *problem)
{
    Running running = {0};

    if (fields_decode(&running, running_fields, ARRAY_SIZE(running_fields), body, problem) < 0)
        return -EPROTO;
    if (running.id == 0 || !has_branch(hello, running.branch) || !run_id_valid(running.run_id))
        return problem_set(problem, ERR_BAD_REQUEST, "running: an id, branch or run_id that cannot be");
    hello->running =
        (GuestRunning){.id = running.id, .branch = running.branch, .code_hash = running.code_hash};
    memcpy(hello->running.run_id, running.run_id.data, LIMIT_RUN_ID);
    return 0;
}

int guest_hello_decode(GuestClaim *ret, const msgpack_object_map *body, Problem *problem)
{
    Hello hello = {0};
    GuestClaim claim = {0};

    if (fields_decode(&hello, hello_fields, ARRAY_SIZE(hello_fields), body, problem) < 0)
        return -EPROTO;
    if (hello.protocol != PROTOCOL_VERSION)
        return problem_set(problem, ERR_PROTOCOL_MISMATCH, "it speaks version %llu of the protocol",
                           (unsigned long long)hello.protocol);
    claim.session = hello.session;
    claim.secret = hello.secret;
    if (decode_branches(&claim.hello, hello.branches, problem) < 0 ||
        (hello.running && decode_running(&claim.hello, hello.running, problem) < 0))
        return -EPROTO;
    *ret = claim;
    return 0;
}
