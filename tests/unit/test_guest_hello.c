/* First messages of supervisors: an honest one is understood, and any other refused. */
#include <string.h>

#include "host/sandbox/guest.h"
#include "tests/support/cmocka.h"

#define RUN_ID "0f1e2d3c4b5a69788796a5b4c3d2e1f0"

typedef struct Said {
    uint64_t protocol;
    size_t branches;
    uint64_t numbers[LIMIT_BRANCHES + 2];
    bool running;
    uint64_t id, branch;
    const char *run_id;
    size_t secret;
} Said;

static const Said honest = {.protocol = PROTOCOL_VERSION,
                            .branches = 2,
                            .numbers = {0, 7},
                            .running = true,
                            .id = 21,
                            .branch = 7,
                            .run_id = RUN_ID,
                            .secret = GUEST_SECRET_SIZE};

static void write_running(Writer *w, const Said *said)
{
    if (!said->running) {
        write_nil(w);
        return;
    }
    write_map(w, 4);
    write_key(w, "id");
    write_uint(w, said->id);
    write_key(w, "branch");
    write_uint(w, said->branch);
    write_key(w, "run_id");
    write_text(w, said->run_id);
    write_key(w, "code_hash");
    write_uint(w, UINT64_MAX);
}

static int decode(GuestClaim *ret, const Said *said)
{
    static const uint8_t secret[GUEST_SECRET_SIZE + 1];
    Buf bytes _cleanup_(buf_deinit) = BUF_NULL;
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;
    Writer w;

    writer_message(&w, &bytes, MSG_GUEST_HELLO, 0, 6);
    write_key(&w, "protocol");
    write_uint(&w, said->protocol);
    write_key(&w, "session");
    write_text(&w, "a");
    write_key(&w, "secret");
    write_bytes(&w, secret, said->secret);
    write_key(&w, "peer");
    write_text(&w, "limpet-guest/0");
    write_key(&w, "branches");
    write_array(&w, said->branches);
    for (size_t i = 0; i < said->branches; i++) {
        write_map(&w, 3);
        write_key(&w, "branch");
        write_uint(&w, said->numbers[i]);
        write_key(&w, "epoch");
        write_uint(&w, i + 1);
        write_key(&w, "execution_count");
        write_uint(&w, i + 10);
    }
    write_key(&w, "running");
    write_running(&w, said);
    assert_int_equal(writer_finish(&w), 0);
    assert_int_equal(message_decode(&message, buf_head(&bytes), bytes.size, &problem), 0);
    int r = guest_hello_decode(ret, &message.body, &problem);
    assert_true(r == 0 || problem.code != ERR_NONE);
    return r;
}

TEST(test_honest)
{
    GuestClaim claim;
    Said idle = honest;

    assert_int_equal(decode(&claim, &honest), 0);
    assert_int_equal(claim.hello.branch_count, 2);
    assert_int_equal(claim.hello.branches[1].branch, 7);
    assert_int_equal(claim.hello.branches[1].epoch, 2);
    assert_int_equal(claim.hello.branches[1].execution_count, 11);
    assert_int_equal(claim.hello.running.id, 21);
    assert_int_equal(claim.hello.running.branch, 7);
    assert_true(claim.hello.running.code_hash == UINT64_MAX);
    assert_string_equal(claim.hello.running.run_id, RUN_ID);

    idle.running = false;
    assert_int_equal(decode(&claim, &idle), 0);
    assert_int_equal(claim.hello.running.id, 0);
}

TEST(test_refused)
{
    Said said[] = {honest, honest, honest, honest, honest, honest, honest, honest, honest};
    GuestClaim claim;

    said[0].protocol++;
    said[1].branches = 0;
    said[2].branches = LIMIT_BRANCHES + 2;
    for (size_t i = 0; i < said[2].branches; i++)
        said[2].numbers[i] = i;
    said[3].numbers[1] = 0; /* twice */
    said[4].numbers[0] = 5; /* not first */
    said[5].branch = 8;     /* not there */
    said[6].id = 0;
    said[7].run_id = "0F1E2D3C4B5A69788796A5B4C3D2E1F0";
    said[8].secret++;
    for (size_t i = 0; i < ARRAY_SIZE(said); i++)
        assert_true(decode(&claim, &said[i]) < 0);
}

TEST(test_run_ids)
{
    assert_true(run_id_valid((Text){RUN_ID, LIMIT_RUN_ID}));
    assert_false(run_id_valid((Text){RUN_ID, LIMIT_RUN_ID - 1}));
    assert_false(run_id_valid((Text){"0f1e2d3c4b5a69788796a5b4c3d2e1f\0", LIMIT_RUN_ID}));
    assert_false(run_id_valid((Text){"0f1e2d3c4b5a69788796a5b4c3d2e1fg", LIMIT_RUN_ID}));
    assert_false(run_id_valid((Text){0}));
}
