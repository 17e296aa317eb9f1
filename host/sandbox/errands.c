/* Queue of a sandbox's errands: which one is sent next, and its end. */
#include <errno.h>
#include <string.h>

#include "host/link/envelope.h"
#include "host/sandbox/internal.h"
#include "proto/base/clock.h"
#include "proto/limits.h"

/* Each may hold a piece of a file. */
#define WAITING_MAX 64

void errands_init(Errands *errands)
{
    *errands = (Errands){0};
    list_init(&errands->waiting);
    list_init(&errands->sent);
}

static void fail(Errand *errand, ErrorCode code, const char *text)
{
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, code, "%s", text);
    errand->ops->failed(errand, &problem);
}

static bool has_place(const Errands *errands, const Errand *errand)
{
    static const size_t places[ERRAND_LANES] = {
        [ERRAND_SHORT] = LIMIT_FILE_REQUESTS,
        [ERRAND_WATCH] = LIMIT_WATCHES,
        [ERRAND_PROCESS] = 2 * LIMIT_PROCESSES, /* one writes to it while another reads */
    };

    return errands->sent_count[errand->lane] < places[errand->lane];
}

bool errands_wait_for_processes(const Errands *errands)
{
    return errands->sent_count[ERRAND_PROCESS] > 0;
}

bool errands_only_watch(const Errands *errands)
{
    return errands->waiting_count == 0 && errands->sent_count[ERRAND_SHORT] == 0 &&
           errands->sent_count[ERRAND_PROCESS] == 0;
}

static void dispatch(Errand *errand)
{
    Sandbox *sandbox = errand->sandbox;
    Errands *errands = &sandbox->errands;
    Buf message _cleanup_(buf_deinit) = BUF_NULL;
    int r;

    list_remove(&errand->link);
    errands->waiting_count--;
    list_append(&errands->sent, &errand->link);
    errands->sent_count[errand->lane]++;
    errand->number = sandboxes_next_number(sandbox->all);
    r = envelope_write(&message, errand->kind, errand->number, encoded_text(&errand->body));
    buf_deinit(&errand->body);
    if (r == 0)
        r = guest_send(sandbox->guest, &message);
    if (r < 0)
        fail(errand, ERR_INTERNAL, "the session's supervisor cannot be reached; try again");
}

/* The first one that may be sent. */
static Errand *next_waiting(const Errands *errands)
{
    Errand *errand;

    list_foreach (errand, (List *)&errands->waiting, Errand, link)
        if (has_place(errands, errand))
            return errand;
    return NULL;
}

void errands_resume(Sandbox *sandbox)
{
    Errand *errand;

    while (sandbox->state == SANDBOX_READY && (errand = next_waiting(&sandbox->errands)) &&
           sandbox_takes(sandbox))
        dispatch(errand);
}

int errand_begin(Errand *errand, Sandbox *sandbox)
{
    Errands *errands = &sandbox->errands;

    list_init(&errand->link);
    errand->sandbox = sandbox;
    if (errands->waiting_count >= WAITING_MAX)
        return -EBUSY;
    list_append(&errands->waiting, &errand->link);
    errands->waiting_count++;
    errands_resume(sandbox);
    return 0;
}

/* Its session is not idle. Where something runs it will be told of its rest later. */
static void note_use(const Errand *errand)
{
    Sandbox *sandbox = errand->sandbox;

    sandbox->used = clock_now();
    if (errand->lane != ERRAND_WATCH && sandbox->state == SANDBOX_READY && sandbox->trunk &&
        !sandbox_is_busy(sandbox))
        sandbox->owner->rested(sandbox, sandbox->trunk);
}

void errand_over(Errand *errand)
{
    Errands *errands = &errand->sandbox->errands;

    list_remove(&errand->link);
    if (errand->number == 0)
        errands->waiting_count--;
    else
        errands->sent_count[errand->lane]--;
    buf_deinit(&errand->body);
    note_use(errand);
    errands_resume(errand->sandbox);
}

Errand *errands_find(const Sandbox *sandbox, uint64_t number)
{
    Errand *errand;

    list_foreach (errand, (List *)&sandbox->errands.sent, Errand, link)
        if (errand->number == number)
            return errand;
    return NULL;
}

static Errand *first_before(const Errands *errands, uint64_t number)
{
    Errand *errand;

    list_foreach (errand, (List *)&errands->sent, Errand, link)
        if (errand->number < number)
            return errand;
    return NULL;
}

void errands_disconnect(Sandbox *sandbox, uint64_t number)
{
    Errand *errand;

    while ((errand = first_before(&sandbox->errands, number)))
        fail(errand, ERR_INTERNAL,
             "the connection to the session's supervisor broke meanwhile; look whether it was done");
}

static Errand *first(const Errands *errands)
{
    const List *list = list_empty(&errands->sent) ? &errands->waiting : &errands->sent;

    return list_empty(list) ? NULL : list_entry(list_first((List *)list), Errand, link);
}

void errands_fail_all(Sandbox *sandbox, const Problem *problem)
{
    Errand *errand;

    while ((errand = first(&sandbox->errands)))
        errand->ops->failed(errand, problem);
}
