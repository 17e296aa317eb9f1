#include "host/session/checkpoint_files.h"

#include <string.h>

#include "host/session/internal.h"
#include "host/session/session.h"

/* ---- what takes time ---- */

typedef struct FilesStep {
    AsyncStep step; /* of the order */
    FilesThen *then;
} FilesStep;

static void step_free(FilesStep *files)
{
    async_step_detach(&files->step);
    free(files);
}

static void on_done(void *userdata, FileServiceAnswer *answer)
{
    FilesStep *files = userdata;
    GuestRequest *to_guest = files->step.request;
    FilesThen *then = files->then;

    step_free(files);
    if (to_guest)
        then(container_of(to_guest, Order, to_guest), answer->problem, answer->body);
}

static int begin(Order *order, JobKind kind, const void *request, FilesThen *then, Problem *problem)
{
    FilesStep *files = calloc(1, sizeof(*files));

    if (!files)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    async_step_attach(&files->step, &order->to_guest);
    files->then = then;
    if (file_service_ask(order->to_guest.sandbox->all->file_service, order->to_guest.sandbox->user, kind,
                         request, on_done, files) == 0)
        return 0;
    step_free(files);
    return problem_set(problem, ERR_INTERNAL, "files cannot be copied now: out of memory");
}

static Text id_of(const Sandbox *sandbox)
{
    return text_of(sandbox->files.id);
}

int checkpoint_files_take(Order *order, FilesThen *then, Problem *problem)
{
    const Sandbox *sandbox = order->to_guest.sandbox;
    const JobTake take = {.id = id_of(sandbox), .budget = sandbox->all->options->files_budget};

    return begin(order, JOB_TAKE, &take, then, problem);
}

int checkpoint_files_stage(Order *order, const char *checkpoint, FilesThen *then, Problem *problem)
{
    const JobCheckpoint stage = {.id = id_of(order->to_guest.sandbox), .checkpoint = text_of(checkpoint)};

    return begin(order, JOB_STAGE, &stage, then, problem);
}

static int begin_plain(Order *order, JobKind kind, FilesThen *then, Problem *problem)
{
    return begin(order, kind, &(JobOf){.id = id_of(order->to_guest.sandbox)}, then, problem);
}

int checkpoint_files_restore(Order *order, FilesThen *then, Problem *problem)
{
    return begin_plain(order, JOB_RESTORE, then, problem);
}

int checkpoint_files_unstage(Order *order, FilesThen *then, Problem *problem)
{
    return begin_plain(order, JOB_UNSTAGE, then, problem);
}

int checkpoint_files_take_template(Order *order, const char *template, FilesThen *then, Problem *problem)
{
    const Sandbox *sandbox = order->to_guest.sandbox;
    const JobTemplate take_one = {
        .id = id_of(sandbox), .template = text_of(template), .budget = sandbox->all->options->files_budget};

    return begin(order, JOB_TAKE_TEMPLATE, &take_one, then, problem);
}

typedef struct Acceptance {
    AsyncStep step; /* of the order */
    void (*then)(Order *order);
} Acceptance;

static void on_files_accepted(void *userdata, ArtifactList *none)
{
    Acceptance *acceptance = userdata;
    void (*then)(Order *) = acceptance->then;
    GuestRequest *to_guest = acceptance->step.request;

    async_step_detach(&acceptance->step);
    free(acceptance);
    if (to_guest)
        then(container_of(to_guest, Order, to_guest));
}

void checkpoint_files_accept(Order *order, void (*then)(Order *order))
{
    Acceptance *acceptance = calloc(1, sizeof(*acceptance));

    if (acceptance) {
        async_step_attach(&acceptance->step, &order->to_guest);
        acceptance->then = then;
    }
    if (acceptance &&
        session_files_accept(&order->to_guest.sandbox->files, on_files_accepted, acceptance) == 0)
        return;
    if (acceptance)
        async_step_detach(&acceptance->step);
    free(acceptance);
    then(order);
}

int checkpoint_files_keep(Order *order, Text checkpoint, Text name, uint64_t bytes, FilesThen *then,
                          Problem *problem)
{
    const JobKeep keep = {
        .id = id_of(order->to_guest.sandbox), .checkpoint = checkpoint, .name = name, .bytes = bytes};

    return begin(order, JOB_KEEP, &keep, then, problem);
}

int checkpoint_files_find(Order *order, const char *checkpoint, FilesThen *then, Problem *problem)
{
    const JobCheckpoint find = {.id = id_of(order->to_guest.sandbox), .checkpoint = text_of(checkpoint)};

    return begin(order, JOB_FIND, &find, then, problem);
}

int checkpoint_files_list(Order *order, FilesThen *then, Problem *problem)
{
    return begin_plain(order, JOB_LIST, then, problem);
}

/* ---- for which nobody waits ---- */

void checkpoint_files_give_up(const Sandbox *sandbox)
{
    file_service_tell(sandbox->all->file_service, JOB_GIVE_UP, &(JobOf){.id = id_of(sandbox)});
}

void checkpoint_files_drop(const Sandbox *sandbox, Text checkpoint)
{
    file_service_tell(sandbox->all->file_service, JOB_DROP,
                      &(JobCheckpoint){.id = id_of(sandbox), .checkpoint = checkpoint});
}

static void write_ids(Writer *w, const void *source)
{
    const Value *checkpoints = source;
    MsgGuestCheckpoint checkpoint;

    write_array(w, value_count(checkpoints));
    for (uint32_t i = 0; i < value_count(checkpoints); i++) {
        value_row(&checkpoint, MsgGuestCheckpoint, checkpoints, i);
        write_text_n(w, checkpoint.id.data, checkpoint.id.size);
    }
}

void checkpoint_files_prune(const Sandbox *sandbox, const Value *checkpoints)
{
    const JobPrune prune = {.id = id_of(sandbox), .checkpoints = {.write = write_ids, .source = checkpoints}};

    file_service_tell(sandbox->all->file_service, JOB_PRUNE, &prune);
}

MsgCheckpoint checkpoint_to_wire(const Session *root, const MsgGuestCheckpoint *said, bool files,
                                 char name[static BRANCH_NAME_SIZE])
{
    return (MsgCheckpoint){
        .id = said->id,
        .name = said->name,
        .session = text_of(session_branch_name(root, said->branch, name)),
        .execution_count = said->execution_count,
        .created = said->created,
        .automatic = said->automatic,
        .files = files,
        .private_bytes = said->private_bytes,
        .parent = said->parent,
    };
}

/* ---- files of a template ---- */

static void on_template_accepted(Order *order)
{
    order_reply(order, NULL);
}

static void start_accepting(Order *order)
{
    checkpoint_files_accept(order, on_template_accepted);
}

static const OrderOps accept_ops = {.start = start_accepting};

void session_accept_files(Session *root)
{
    Order *order;

    if (!session_files_dirty(&root->sandbox->files, FILES_SESSION))
        return;
    order = order_new(sizeof(*order), &accept_ops, root, NULL);
    if (order)
        order_queue(order);
}
