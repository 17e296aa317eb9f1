/* Messages between processes that do not trust each other, with descriptors and questions, and peers that do
 * what none may. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/ipc/ipc.h"
#include "host/privilege/launcher_protocol.h"
#include "host/privilege/remote.h"
#include "proto/schema.h"
#include "tests/support/cmocka.h"

#define KIND 7u

typedef struct End {
    Ipc ipc;
    unsigned messages;
    uint64_t last_id;
    char reason[64];
    size_t descriptors;
    int kept; /* the first descriptor */
    int lost;
    int answer; /* what the message is answered with by its receiver */
} End;

static Loop *loop;
static End near, far;
static int raw; /* where the far end is no Ipc */
static unsigned until;

static int on_message(Ipc *ipc, const Message *message, Descriptors *descriptors)
{
    End *end = container_of(ipc, End, ipc);
    MsgTarget body;
    Problem problem = PROBLEM_NULL;

    assert_int_equal(message->kind, KIND);
    if (body_decode(&body, MsgTarget, &message->body, &problem) < 0)
        return -EBADMSG;
    snprintf(end->reason, sizeof(end->reason), "%.*s", (int)body.session.size, body.session.data);
    end->last_id = message->id;
    end->descriptors = descriptors->n;
    if (end->kept < 0)
        end->kept = descriptors_take(descriptors, 0);
    if (++end->messages == until)
        loop_stop(loop, 0);
    return end->answer;
}

static void on_lost(Ipc *ipc, int error)
{
    End *end = container_of(ipc, End, ipc);

    end->lost = error;
    ipc_close(ipc);
    loop_stop(loop, 0);
}

static const IpcEvents events = {.message = on_message, .lost = on_lost};

static void begin(End *end, int fd)
{
    *end = (End){.kept = -1};
    assert_int_equal(ipc_open(&end->ipc, loop, fd, &ipc_messages, &events), 0);
}

static int set_up(void **state)
{
    int ends[2];

    until = 0;
    assert_int_equal(loop_new(&loop), 0);
    assert_int_equal(ipc_pair(ends), 0);
    begin(&near, ends[0]);
    begin(&far, ends[1]);
    return 0;
}

static int set_up_raw(void **state)
{
    set_up(state);
    raw = fcntl(far.ipc.file.fd, F_DUPFD_CLOEXEC, 0);
    ipc_close(&far.ipc);
    return 0;
}

static int tear_down(void **state)
{
    ipc_close(&near.ipc);
    ipc_close(&far.ipc);
    close_fd(&near.kept);
    close_fd(&far.kept);
    loop_free(loop);
    return 0;
}

static int tear_down_raw(void **state)
{
    close_fd(&raw);
    return tear_down(state);
}

static int say(End *end, uint64_t id, const char *reason, const int *fds, size_t n)
{
    MsgTarget body = {.session = text_of(reason)};

    return ipc_send(&end->ipc, KIND, id, SCHEMA(MsgTarget), &body, fds, n);
}

TEST_WITH(test_messages_come_in_order, set_up, tear_down)
{
    for (unsigned i = 1; i <= 1000; i++) /* more than the socket holds */
        assert_int_equal(say(&near, i, "x", NULL, 0), 0);
    until = 1000;
    assert_int_equal(loop_run(loop), 0);
    assert_int_equal(far.messages, 1000);
    assert_int_equal(far.last_id, 1000);
    assert_string_equal(far.reason, "x");
}

TEST_WITH(test_a_descriptor_is_kept_or_closed, set_up, tear_down)
{
    int pipe_fds[2];
    char byte;

    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(say(&near, 1, "x", (int[]){pipe_fds[1], pipe_fds[1]}, 2), 0);
    close(pipe_fds[1]);
    until = 1;
    loop_run(loop);
    assert_int_equal(far.descriptors, 2);
    assert_int_equal(read(pipe_fds[0], &byte, 1), -1); /* somebody may write still */
    assert_int_equal(errno, EAGAIN);
    close_fd(&far.kept);
    assert_int_equal(read(pipe_fds[0], &byte, 1), 0); /* nobody has the second */
    close(pipe_fds[0]);
}

TEST_WITH(test_too_much_is_not_sent, set_up, tear_down)
{
    static char large[IPC_MESSAGE_MAX];
    const int fds[IPC_DESCRIPTORS_MAX + 1] = {0};

    memset(large, 'x', sizeof(large) - 1);
    assert_int_equal(say(&near, 1, large, NULL, 0), -EMSGSIZE);
    assert_int_equal(say(&near, 1, "x", fds, IPC_DESCRIPTORS_MAX + 1), -E2BIG);
    assert_int_equal(say(&near, 1, "x", NULL, 0), 0);
}

TEST_WITH(test_the_end_of_the_peer_is_told, set_up_raw, tear_down_raw)
{
    close_fd(&raw);
    loop_run(loop);
    assert_int_equal(near.lost, -EPIPE);
}

TEST_WITH(test_a_peer_that_does_not_read_is_given_up, set_up_raw, tear_down_raw)
{
    static char large[IPC_MESSAGE_MAX / 2];
    int r = 0;

    memset(large, 'x', sizeof(large) - 1);
    for (unsigned i = 0; r == 0 && i < 100000; i++)
        r = say(&near, i, large, NULL, 0);
    assert_int_equal(r, -ENOBUFS);
    loop_run(loop);
    assert_int_equal(near.lost, -ENOBUFS);
}

/* Bytes behind a header that says so much, with up to that many descriptors. */
static void send_frame(uint32_t said, const void *bytes, size_t size, unsigned descriptors)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int) * 64)];
    } control = {0};
    uint32_t header[] = {said, descriptors};
    struct iovec parts[] = {{header, sizeof(header)}, {(void *)bytes, size}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    int fds[64] = {0};

    if (descriptors > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors);
        control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                          .cmsg_type = SCM_RIGHTS,
                                          .cmsg_len = CMSG_LEN(sizeof(int) * descriptors)};
        memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * descriptors);
    }
    assert_int_equal(sendmsg(raw, &message, 0), sizeof(header) + size);
}

static unsigned count_descriptors(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

TEST_WITH(test_more_descriptors_end_it_and_are_closed, set_up_raw, tear_down_raw)
{
    unsigned before = count_descriptors();

    send_frame(5, "\x94\x01\x07\x00\x80", 5, IPC_DESCRIPTORS_MAX + 20);
    loop_run(loop);
    assert_int_equal(near.lost, -EBADMSG);
    assert_int_equal(count_descriptors(), before - 1); /* that of the Ipc */
}

TEST_WITH(test_what_the_receiver_refuses_ends_it, set_up, tear_down)
{
    far.answer = -EBADMSG;
    say(&near, 1, "x", NULL, 0);
    say(&near, 2, "y", NULL, 0);
    loop_run(loop);
    assert_int_equal(far.lost, -EBADMSG);
    assert_int_equal(far.last_id, 1);
}

/* ---- questions ---- */

typedef struct Question {
    pthread_t thread;
    double seconds;
    int result;
    char answer[64];
} Question;

static void *ask(void *userdata)
{
    Question *question = userdata;
    MsgTarget body = {.session = text_of("why")};
    IpcAnswer answer = IPC_ANSWER_NULL;
    Problem problem = PROBLEM_NULL;

    question->result =
        ipc_ask(&near.ipc, KIND, SCHEMA(MsgTarget), &body, NULL, 0, question->seconds, &answer);
    if (question->result == 0 && body_decode(&body, MsgTarget, &answer.message.body, &problem) == 0)
        snprintf(question->answer, sizeof(question->answer), "%.*s", (int)body.session.size,
                 body.session.data);
    ipc_answer_deinit(&answer);
    return NULL;
}

static void start_asking(Question *question, double seconds)
{
    question->seconds = seconds;
    pthread_create(&question->thread, NULL, ask, question);
    until = 1;
    loop_run(loop);
    assert_string_equal(far.reason, "why");
    assert_int_equal(far.descriptors, 1);
}

TEST_WITH(test_a_question_is_answered, set_up, tear_down)
{
    Question question = {0};
    MsgTarget body = {.session = text_of("because")};

    start_asking(&question, 60);
    assert_int_equal(ipc_answer(take_fd(&far.kept), getpid(), KIND, SCHEMA(MsgTarget), &body, NULL, 0), 0);
    pthread_join(question.thread, NULL);
    assert_int_equal(question.result, 0);
    assert_string_equal(question.answer, "because");
}

TEST_WITH(test_a_question_that_is_dropped_is_over, set_up, tear_down)
{
    Question question = {0};

    start_asking(&question, 60);
    close_fd(&far.kept);
    pthread_join(question.thread, NULL);
    assert_int_equal(question.result, -EPIPE);
}

TEST_WITH(test_a_question_that_nobody_answers_is_over, set_up, tear_down)
{
    Question question = {0};

    start_asking(&question, 0.05);
    pthread_join(question.thread, NULL);
    assert_int_equal(question.result, -ETIMEDOUT);
}

typedef struct LaterQuestion {
    IpcQuestion question;
    int error;
    char answer[64];
} LaterQuestion;

static void on_answer(IpcQuestion *question, int error, IpcAnswer *answer)
{
    LaterQuestion *later = container_of(question, LaterQuestion, question);
    Problem problem = PROBLEM_NULL;
    MsgTarget body;

    later->error = error;
    if (error == 0 && body_decode(&body, MsgTarget, &answer->message.body, &problem) == 0)
        snprintf(later->answer, sizeof(later->answer), "%.*s", (int)body.session.size, body.session.data);
    loop_stop(loop, 0);
}

/* Asks, and returns once the question has come. */
static void ask_later(LaterQuestion *later)
{
    const MsgTarget body = {.session = text_of("why")};

    later->error = 1;
    assert_int_equal(
        ipc_ask_later(&near.ipc, &later->question, KIND, SCHEMA(MsgTarget), &body, NULL, 0, on_answer), 0);
    until = 1;
    loop_run(loop);
    assert_string_equal(far.reason, "why");
    assert_int_equal(later->error, 1);
}

TEST_WITH(test_the_loop_waits_for_an_answer, set_up, tear_down)
{
    LaterQuestion later = {0};
    const MsgTarget body = {.session = text_of("because")};

    ask_later(&later);
    assert_int_equal(ipc_answer(take_fd(&far.kept), getpid(), KIND, SCHEMA(MsgTarget), &body, NULL, 0), 0);
    loop_run(loop);
    assert_int_equal(later.error, 0);
    assert_string_equal(later.answer, "because");
}

TEST_WITH(test_the_loop_does_not_wait_for_a_peer_that_answers_nothing, set_up, tear_down)
{
    LaterQuestion later = {0};

    ask_later(&later);
    close_fd(&far.kept);
    loop_run(loop);
    assert_int_equal(later.error, -EPIPE);
}

TEST_WITH(test_an_answer_that_is_no_message, set_up, tear_down)
{
    LaterQuestion later = {0};

    ask_later(&later);
    assert_int_equal(write(far.kept, "\1\0\0\0\0\0\0\0\xc1", 9), 9);
    loop_run(loop);
    assert_int_equal(later.error, -EBADMSG);
}

/* Answers what the controller asks first, and is gone: before the answer, or the controller may ask so much
 * meanwhile that no more is taken. */
static int begin_and_end(Ipc *ipc, const Message *message, Descriptors *descriptors)
{
    const LauncherMsgBegun begun = {.engine = text_of("oci"), .image = text_of("image")};
    const int clients = STDIN_FILENO;

    close(ipc->file.fd);
    ipc_answer(descriptors_take(descriptors, 0), getppid(), LAUNCHER_DONE, SCHEMA(LauncherMsgBegun), &begun,
               &clients, 1);
    _exit(0);
}

static _Noreturn void be_launcher(int fd)
{
    static const IpcEvents begins = {.message = begin_and_end, .lost = on_lost};
    Ipc ipc;

    assert_int_equal(loop_new(&loop), 0);
    assert_int_equal(ipc_open(&ipc, loop, fd, &ipc_messages, &begins), 0);
    loop_run(loop);
    _exit(1);
}

/* Adopts until it is refused; that is to end the process instead. */
static _Noreturn void be_controller(int fd)
{
    const ContainerSpec spec = {.name = "c",
                                .session = "s",
                                .session_dir = "",
                                .link_dir = "/l",
                                .image = "",
                                .network = "",
                                .data = -1};
    const ContainerEvents ignored = {0};
    const EngineConfig config = {.state_dir = ""};
    Problem problem = PROBLEM_NULL;
    Remote *remote;
    Engine *engine;
    Container *container;

    assert_int_equal(loop_new(&loop), 0);
    assert_int_equal(remote_open(&remote, loop, fd, &config, "", &problem), 0);
    engine = remote_engine(remote);
    while (engine->ops->adopt(engine, &spec, &ignored, NULL, &container, &problem) == 0)
        ;
    _exit(0);
}

/* A refusal would end a session that the next controller can adopt. */
TEST(test_a_launcher_that_is_gone_refuses_nothing)
{
    pid_t controller = fork();
    int status;

    if (controller == 0) {
        int ends[2];

        assert_int_equal(ipc_pair(ends), 0);
        if (fork() == 0) {
            close(ends[0]);
            be_launcher(ends[1]);
        }
        close(ends[1]);
        be_controller(ends[0]);
    }
    assert_int_equal(waitpid(controller, &status, 0), controller);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}
