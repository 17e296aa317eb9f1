#include "host/install/installer.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "host/config/package_index.h"
#include "host/install/internal.h"
#include "host/install/requirements.h"
#include "proto/base/log.h"

/* More than pip has files, in the worst case. */
#define FILES        400000u
#define SECONDS      3600.0
#define CERTIFICATES (2u << 20)
#define LEAST_MEMORY (UINT64_C(512) << 20)
#define REASON_BYTES 600
/* Everybody who asks has a time limit. This one is of a program that nobody waits for any more. */
#define NO_RUN "00000000000000000000000000000000"

/* ---- what becomes of it ---- */

static void tell_failed(Installer *installer, const Problem *problem, Text log)
{
    if (installer->told)
        return;
    installer->told = true;
    installer->events->failed(installer, problem, log);
}

static void free_if_gone(Installer *installer)
{
    if (!installer->gone || installer->taking)
        return;
    list_remove(&installer->link);
    installer->events->gone(installer);
    buf_deinit(&installer->input);
    free(installer);
}

void installer_stop(Installer *installer)
{
    installer->told = true;
    if (!installer->taking)
        sandbox_close(installer->sandbox, "nobody waits for its packages");
}

/* ---- what it leaves ---- */

static void on_taken(void *userdata, FileServiceAnswer *answer)
{
    Installer *installer = userdata;
    const JobPackages *packages = answer->problem ? NULL : &answer->body->as_PACKAGES_TAKE;
    Problem problem = PROBLEM_NULL;
    char name[PACKAGES_NAME_SIZE];

    installer->taking = false;
    if (packages && lock_is_sound(packages->lock)) {
        snprintf(name, sizeof(name), "%.*s", (int)packages->hash.size, packages->hash.data);
        if (!installer->told)
            installer->events->stored(installer, name, packages->lock);
        installer->told = true;
    } else {
        problem_set(&problem, ERR_INSTALL_FAILED, "%s",
                    packages ? "the installer wrote something else than the lock of its packages"
                             : answer->problem->text);
        tell_failed(installer, &problem, (Text){0});
    }
    if (installer->gone)
        free_if_gone(installer);
    else
        sandbox_close(installer->sandbox, "its packages are stored");
}

static void take_packages(Installer *installer)
{
    Sandboxes *all = installer->sandboxes;
    const JobTakePackages take = {.id = text_of(installer->sandbox->files.id),
                                  .before = text_of(installer->before),
                                  .request = text_of(installer->request),
                                  .budget = all->options->packages_disk};

    installer->taking =
        file_service_ask(all->file_service, NOBODYS, JOB_PACKAGES_TAKE, &take, on_taken, installer) == 0;
    if (!installer->taking)
        sandbox_close(installer->sandbox, "out of memory");
}

/* ---- pip ---- */

static Installer *of(GuestRequest *to_guest)
{
    return container_of(to_guest, Installer, to_guest);
}

/* Returns the last line of what the installer printed, of which nothing is believed but that it is text. */
static Text last_line(Text text)
{
    const char *from;

    while (text.size > 0 && text.data[text.size - 1] == '\n')
        text.size--;
    from = text.size > 0 ? memrchr(text.data, '\n', text.size) : NULL;
    if (from) {
        text.size -= (size_t)(from + 1 - text.data);
        text.data = from + 1;
    }
    text.size = MIN(text.size, (size_t)REASON_BYTES);
    return text;
}

/* The end, from the beginning of a line where there is one. */
static Text end_of(Text log)
{
    size_t cut = log.size > LIMIT_INSTALL_LOG ? log.size - LIMIT_INSTALL_LOG : 0;
    const char *line = cut ? memchr(log.data + cut, '\n', log.size - cut) : NULL;

    cut = line ? (size_t)(line + 1 - log.data) : cut;
    return (Text){log.data + cut, log.size - cut};
}

static void on_failed_run(Installer *installer, const MsgExecuted *executed)
{
    Text reason = last_line(executed->out);
    Problem problem = PROBLEM_NULL;

    if (text_equal(executed->status, "error") && reason.size > 0)
        problem_set(&problem, ERR_INSTALL_FAILED, "%.*s", (int)reason.size, reason.data);
    else
        problem_set(&problem, ERR_INSTALL_FAILED, "the installer failed: %.*s",
                    (int)executed->error.message.size, executed->error.message.data);
    tell_failed(installer, &problem, end_of(executed->err));
    sandbox_close(installer->sandbox, "it failed");
}

static int on_executed(Installer *installer, const Message *message, Problem *problem)
{
    MsgExecuted executed;

    if (body_decode(&executed, MsgExecuted, &message->body, problem) < 0)
        return -EPROTO;
    if (executed.has_error == text_equal(executed.status, "ok"))
        return problem_set(problem, ERR_BAD_REQUEST, "executed: error does not go with status");
    installer->to_guest.state = REQUEST_OVER;
    sandbox_take_out(&installer->to_guest);
    if (executed.has_error)
        on_failed_run(installer, &executed);
    else
        take_packages(installer);
    return 0;
}

static int on_output(Installer *installer, const Message *message, Problem *problem)
{
    MsgOutput output;

    if (body_decode(&output, MsgOutput, &message->body, problem) < 0)
        return -EPROTO;
    if (!installer->told && output.stream == 2)
        installer->events->output(installer, &output, message->encoded);
    guest_send(installer->sandbox->guest, MSG_CREDIT, installer->to_guest.number, MsgCredit,
               &(MsgCredit){.count = 1});
    return 0;
}

/* Ends an installer that could not be begun. */
static int on_refused(Installer *installer, const Message *message, Problem *problem)
{
    MsgError error;
    char reason[PROBLEM_TEXT_MAX];

    if (body_decode(&error, MsgError, &message->body, problem) < 0)
        return -EPROTO;
    snprintf(reason, sizeof(reason), "pip could not be started: %.*s", (int)MIN(error.message.size, 400),
             error.message.data);
    sandbox_close(installer->sandbox, reason);
    return 0;
}

static int on_message(GuestRequest *to_guest, const Message *message, Problem *problem)
{
    switch (message->kind) {
    case MSG_EXECUTED:
        return on_executed(of(to_guest), message, problem);
    case MSG_OUTPUT:
        return on_output(of(to_guest), message, problem);
    case MSG_ERROR:
        return on_refused(of(to_guest), message, problem);
    default:
        return 0;
    }
}

static void write_environment(Writer *w, const void *source)
{
    const Installer *installer = source;
    IndexUrl url = package_index_url(installer->sandboxes->options);

    write_map(w, 3);
    write_text(w, "LIMPET_INDEX");
    write_text_n(w, url.text, url.size);
    write_text(w, "LIMPET_FRESH");
    write_text(w, installer->fresh ? "1" : "");
    write_text(w, "LIMPET_BUILDS");
    write_text(w, installer->builds ? "1" : "");
}

static int send_program(Installer *installer)
{
    static const char *const words[] = {"python3", "-I", "-c", script_installer};
    const TextList argv = {words, ARRAY_SIZE(words)};
    Buf program _cleanup_(buf_deinit) = BUF_NULL;
    const MsgProgram said = {
        .argv = value_texts(&argv),
        .env = {.write = write_environment, .source = installer},
        .stdin = {(const char *)buf_head(&installer->input), installer->input.size},
    };
    const MsgExecOrder order = {
        .run_id = text_of(NO_RUN), .timeout = SECONDS, .stream = true, .program = value_encoded(&program)};
    int r = body_encode(&program, MsgProgram, &said);

    installer->to_guest.state = REQUEST_SENT;
    installer->to_guest.number = sandboxes_next_number(installer->sandboxes);
    return r < 0 ? r
                 : guest_send(installer->sandbox->guest, MSG_EXEC, installer->to_guest.number, MsgExecOrder,
                              &order);
}

static void on_start(GuestRequest *to_guest)
{
    if (send_program(of(to_guest)) < 0)
        sandbox_close(to_guest->sandbox, "its supervisor cannot be reached");
}

static void on_end(GuestRequest *to_guest, const char *reason)
{
    sandbox_take_out(to_guest);
}

static void on_fail(GuestRequest *to_guest, const Problem *problem)
{
    sandbox_take_out(to_guest);
}

static void on_leave(GuestRequest *to_guest)
{
    Problem problem = PROBLEM_NULL;

    sandbox_take_out(to_guest);
    problem_set(&problem, ERR_UNAVAILABLE, "the controller is shutting down; ask the next one again");
    tell_failed(of(to_guest), &problem, (Text){0});
}

static const GuestRequestOps request_ops = {
    .start = on_start,
    .message = on_message,
    .fail = on_fail,
    .end = on_end,
    .leave = on_leave,
};

/* ---- as the owner of its sandbox ---- */

static int on_prepared(Sandbox *sandbox, const Message *message, Problem *problem)
{
    if (message->kind == MSG_PREPARED)
        sandbox_supervisor_ready(sandbox);
    return 0;
}

static void on_attached(void *userdata, int result, const Problem *problem)
{
    Installer *installer = userdata;
    Sandbox *sandbox = installer->sandbox;

    if (sandbox_is_ending(sandbox))
        return;
    if (result < 0) {
        tell_failed(installer, problem, (Text){0});
        sandbox_close(sandbox, problem->text);
        return;
    }
    guest_request_init(&installer->to_guest, &request_ops, LANE_PROGRAM, sandbox, NULL);
    if (sandbox_activate(sandbox) < 0) {
        sandbox_close(sandbox, "its supervisor cannot be reached");
        return;
    }
    sandbox_queue(sandbox, &installer->to_guest);
}

static void on_ready(Sandbox *sandbox)
{
    Installer *installer = sandbox->userdata;
    Problem problem = PROBLEM_NULL;
    int r = 0;

    if (*installer->before)
        r = sandbox->all->engine->ops->attach_packages(sandbox->container, installer->before,
                                                       &(AttachDone){on_attached, installer}, &problem);
    if (r != ATTACH_ASKED)
        on_attached(installer, r, &problem);
}

static void on_sandbox_failed(Sandbox *sandbox, const Problem *problem)
{
    Problem why = *problem;

    problem_prefix(&why, "the installer's container");
    tell_failed(sandbox->userdata, &why, (Text){0});
}

static void on_closing(Sandbox *sandbox, const char *reason)
{
    Installer *installer = sandbox->userdata;
    Problem problem = PROBLEM_NULL;

    if (installer->taking)
        return;
    problem_set(&problem, ERR_INSTALL_FAILED, "the installer ended: %s", reason);
    tell_failed(installer, &problem, (Text){0});
}

static void on_rested(Sandbox *sandbox, Session *session)
{
}

static void on_gone(Sandbox *sandbox)
{
    Installer *installer = sandbox->userdata;

    sandbox_free(sandbox);
    installer->gone = true;
    free_if_gone(installer);
}

static const SandboxOwner installer_owner = {
    .trusts_rules = true,
    .message = on_prepared,
    .ready = on_ready,
    .failed = on_sandbox_failed,
    .rested = on_rested,
    .closing = on_closing,
    .gone = on_gone,
};

/* ---- beginning ---- */

static int add_certificates(Buf *input, const char *path, Problem *problem)
{
    int fd _cleanup_(closep) = *path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = 0;

    if (!*path)
        return 0;
    if (fd < 0)
        return problem_set(problem, ERR_INSTALL_FAILED,
                           "the certificates %s cannot be read: %s (option "
                           "package_certificates)",
                           path, strerror(errno));
    input->limit = input->size + CERTIFICATES;
    do
        n = buf_read_fd(input, fd, CERTIFICATES);
    while (n > 0);
    return n < 0 ? problem_set(problem, ERR_INSTALL_FAILED, "the certificates %s cannot be read: %s", path,
                               strerror((int)-n))
                 : 0;
}

/* The number of characters of the requirements, which are ASCII or counted by the bytes that begin one. */
static size_t characters(Text text)
{
    size_t n = 0;

    for (size_t i = 0; i < text.size; i++)
        n += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    return n;
}

static int write_input(Installer *installer, Text requirements, Problem *problem)
{
    char head[32];
    int n = snprintf(head, sizeof(head), "%zu\n", characters(requirements));

    if (buf_append(&installer->input, head, (size_t)n) < 0 ||
        buf_append(&installer->input, requirements.data, requirements.size) < 0)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    return add_certificates(&installer->input, installer->sandboxes->options->package_certificates, problem);
}

/* An array of text, of the words between commas. */
static void write_words(Buf *ret, const char *words)
{
    size_t n = 1;
    Writer w;

    for (const char *at = words; *at; at++)
        n += *at == ',';
    writer_init(&w, ret);
    write_array(&w, n);
    for (; n > 0; n--) {
        size_t size = strcspn(words, ",");

        write_text_n(&w, words, size);
        words += size + (words[size] == ',');
    }
    if (writer_finish(&w) < 0)
        buf_clear(ret);
}

/* The index, and nothing else; where nothing is isolated there is nothing to be opened. 0, or negative with
 * the problem set. */
static int read_hosts(msgpack_unpacked *hosts, const Buf *encoded, MsgOptions *wanted, Problem *problem)
{
    if (msgpack_unpack_next(hosts, (const char *)buf_head(encoded), encoded->size, NULL) !=
        MSGPACK_UNPACK_SUCCESS)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    wanted->allow.array = &hosts->data.via.array;
    return 0;
}

static int settle_options(SessionOptions *ret, const Sandboxes *all, const char *image, Problem *problem)
{
    char *words _cleanup_(freep) = package_index_hosts(all->options);
    Buf encoded _cleanup_(buf_deinit) = BUF_NULL;
    msgpack_unpacked hosts;
    MsgOptions wanted;
    int r;

    body_clear(&wanted, MsgOptions);
    wanted.image = text_of(image);
    wanted.memory.bytes = MAX(all->options->memory, LEAST_MEMORY);
    wanted.disk.bytes = 2 * all->options->packages_disk;
    wanted.files = FILES;
    wanted.checkpoint = text_of("off");
    write_words(&encoded, words ? words : "");
    msgpack_unpacked_init(&hosts);
    r = sandboxes_isolate(all) ? read_hosts(&hosts, &encoded, &wanted, problem) : 0;
    if (r == 0)
        r = session_options_settle(ret, &wanted, all->options, problem);
    msgpack_unpacked_destroy(&hosts);
    return r;
}

static int begin(Installer *installer, const InstallerOrder *order, Problem *problem)
{
    static uint8_t empty_array[] = {0x90};
    static const Buf no_imports = {.data = empty_array, .size = sizeof(empty_array)};
    const SpareSpec spec = {.imports = value_encoded(&no_imports)};
    Sandboxes *all = installer->sandboxes;
    SessionOptions options _cleanup_(session_options_deinit) = {0};
    int r = write_input(installer, order->requirements, problem);

    if (r == 0)
        r = settle_options(&options, all, order->image, problem);
    if (r < 0)
        return r;
    return sandbox_start_spare(&installer->sandbox, all, false, &options, &spec, &installer_owner, installer,
                               problem);
}

int installer_begin(Installer **ret, Sandboxes *sandboxes, const InstallerOrder *order,
                    const InstallerEvents *events, void *userdata, Problem *problem)
{
    Installer *installer = calloc(1, sizeof(*installer));
    int r;

    if (!installer)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    list_init(&installer->link);
    installer->sandboxes = sandboxes;
    installer->events = events;
    installer->userdata = userdata;
    installer->fresh = order->fresh;
    installer->builds = order->builds;
    snprintf(installer->request, sizeof(installer->request), "%s", order->request);
    snprintf(installer->before, sizeof(installer->before), "%s", order->before);
    r = begin(installer, order, problem);
    if (r < 0) {
        buf_deinit(&installer->input);
        free(installer);
        return r;
    }
    log_info("installing packages", "container=%s", installer->sandbox->container_name);
    *ret = installer;
    return 0;
}
