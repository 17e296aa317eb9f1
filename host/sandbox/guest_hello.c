#include "host/sandbox/guest_hello.h"

#include <errno.h>
#include <string.h>

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

static int decode_branches(GuestHello *hello, const Value *branches, Problem *problem)
{
    for (uint32_t i = 0; i < value_count(branches); i++) {
        MsgGuestBranch branch;

        value_row(&branch, MsgGuestBranch, branches, i);
        if ((i == 0) != (branch.branch == 0) || has_branch(hello, branch.branch))
            return problem_set(problem, ERR_BAD_REQUEST, "branches: each once, and 0 first");
        hello->branches[hello->branch_count++] = branch;
    }
    return hello->branch_count > 0 ? 0 : problem_set(problem, ERR_BAD_REQUEST, "branches: none of them");
}

static int decode_call(GuestRunning *ret, const MsgGuestRunning *running, Problem *problem)
{
    if (running->id == 0 || !run_id_valid(running->run_id))
        return problem_set(problem, ERR_BAD_REQUEST, "running: invalid id or run_id");
    *ret = (GuestRunning){.id = running->id,
                          .branch = running->branch,
                          .code_hash = running->code_hash,
                          .background = running->background};
    memcpy(ret->run_id, running->run_id.data, LIMIT_RUN_ID);
    return 0;
}

static int decode_running(GuestHello *hello, const MsgGuestRunning *running, Problem *problem)
{
    if (!has_branch(hello, running->branch))
        return problem_set(problem, ERR_BAD_REQUEST, "running: invalid branch");
    return decode_call(&hello->running, running, problem);
}

bool guest_hello_has(const GuestHello *hello, uint64_t id)
{
    for (size_t i = 0; i < hello->command_count; i++)
        if (hello->commands[i].id == id)
            return true;
    return false;
}

/* The branch of one may have been closed since. */
static int decode_commands(GuestHello *hello, const Value *commands, Problem *problem)
{
    for (uint32_t i = 0; i < value_count(commands); i++) {
        MsgGuestRunning said;

        value_row(&said, MsgGuestRunning, commands, i);
        if (guest_hello_has(hello, said.id))
            return problem_set(problem, ERR_BAD_REQUEST, "commands: one of them twice");
        if (decode_call(&hello->commands[hello->command_count], &said, problem) < 0)
            return -EPROTO;
        hello->command_count++;
    }
    return 0;
}

int guest_hello_decode(GuestClaim *ret, const msgpack_object_map *body, Problem *problem)
{
    MsgGuestHello hello;
    GuestClaim claim = {0};

    if (body_decode(&hello, MsgGuestHello, body, problem) < 0)
        return -EPROTO;
    if (hello.protocol != PROTOCOL_VERSION)
        return problem_set(problem, ERR_PROTOCOL_MISMATCH,
                           "the supervisor speaks version %llu of the protocol",
                           (unsigned long long)hello.protocol);
    claim.session = hello.session;
    claim.secret = hello.secret;
    if (decode_branches(&claim.hello, &hello.branches, problem) < 0 ||
        (hello.has_running && decode_running(&claim.hello, &hello.running, problem) < 0) ||
        decode_commands(&claim.hello, &hello.commands, problem) < 0)
        return -EPROTO;
    *ret = claim;
    return 0;
}
