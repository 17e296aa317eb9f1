/* A user of liblimpet in strict C99, for test_library.py: one line of output per thing that happened.
 * library SOCKET run|result|state|attach|features|impatient|forsaken|unconnected */
#include <stdio.h>
#include <string.h>

#include <limpet.h>

static void print_values(const LimpetDisplay *display)
{
    size_t i;

    for (i = 0; i < display->n_values; i++)
        printf(" %s=%d:%s", display->values[i].mime_type, (int)display->values[i].type,
               display->values[i].data);
    printf(" metadata=%s id=%s\n", display->metadata, display->display_id ? display->display_id : "none");
}

static void on_output(void *context, int stream, const char *bytes, size_t size)
{
    printf("%s output %d %.*s\n", (const char *)context, stream, (int)size, bytes);
}

static void on_display(void *context, const LimpetDisplay *display, bool update)
{
    printf("%s display update=%d", (const char *)context, update);
    print_values(display);
}

static int fail(const LimpetClient *client)
{
    printf("%d %s: %s\n", limpet_error(client)->number, limpet_error(client)->name,
           limpet_error(client)->message);
    return 1;
}

static void print_result(const LimpetResult *result)
{
    size_t i;

    printf("%s %s %d/%d count=%d\n", result->run_id, result->status_name, (int)result->status,
           (int)result->state, (int)result->execution_count);
    printf("stdout=%s result=%s\n", result->stdout_text, result->result ? result->result : "none");
    for (i = 0; i < result->n_displays; i++) {
        printf("display");
        print_values(&result->displays[i]);
    }
    for (i = 0; i < result->n_artifacts; i++)
        printf("%s -> %s %d %s %s\n", result->artifacts[i].path, result->artifacts[i].host_path,
               (int)result->artifacts[i].size, result->artifacts[i].mime_type, result->artifacts[i].sha256);
    if (result->has_signal)
        printf("signal %d\n", result->signal);
    if (result->has_exit_code)
        printf("exit code %d\n", result->exit_code);
}

static int run(LimpetClient *client, LimpetResult **ret)
{
    LimpetRun request;

    memset(&request, 0, sizeof(request));
    request.session = "a";
    request.code = "1\0two";
    request.code_size = 5;
    request.run_id = "0123456789abcdef0123456789abcdef";
    request.on_output = on_output;
    request.on_display = on_display;
    request.context = (void *)"context:";
    limpet_interrupt_call(client);
    return limpet_run(client, &request, ret);
}

static void print_variables(const char *what, const LimpetVariable *variables, size_t n)
{
    size_t i, j;

    for (i = 0; i < n; i++) {
        printf("%s %s %s", what, variables[i].name, variables[i].type);
        if (variables[i].shape)
            printf(" shape");
        for (j = 0; j < variables[i].n_shape; j++)
            printf(" %d", (int)variables[i].shape[j]);
        printf(" %s %s %s\n", variables[i].dtype ? variables[i].dtype : "none",
               variables[i].has_bytes ? "bytes" : "none", variables[i].repr ? variables[i].repr : "none");
    }
}

static void print_texts(const char *what, const char *const *texts, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        printf("%s %s\n", what, texts[i]);
}

static void print_state(const LimpetResult *result)
{
    printf("back to %s after %d, protected %d after %d, %s\n", result->rolled_back_to,
           (int)result->rolled_back_to_count, result->state_protection.checkpoint,
           (int)result->state_protection.execution_count,
           result->state_protection.reason ? result->state_protection.reason : "no reason");
    print_texts("not restored", result->not_restored, result->n_not_restored);
    if (!result->changed)
        return;
    print_variables("added", result->changed->added, result->changed->n_added);
    print_variables("changed", result->changed->changed, result->changed->n_changed);
    print_texts("deleted", result->changed->deleted, result->changed->n_deleted);
    printf("more %d\n", (int)result->changed->more);
}

static void print_checkpoint(const LimpetCheckpoint *c)
{
    printf("%s %s %s %d %.1f %d %d %d %s\n", c->id, c->name ? c->name : "none", c->session,
           (int)c->execution_count, c->created, c->automatic, c->files, (int)c->private_bytes,
           c->parent ? c->parent : "none");
}

/* Every call about state; the first that fails ends it. */
static int state(LimpetClient *client, LimpetResult **ret)
{
    LimpetTaken *taken = NULL;
    LimpetCheckpoints *list = NULL;
    LimpetRollback *back = NULL;
    LimpetNamespace *names = NULL;
    LimpetOpened opened, forks[2];
    LimpetRun request;
    uint64_t count = 0, epoch = 0;

    memset(&request, 0, sizeof(request));
    request.session = "a";
    request.code = "1";
    request.on_error = "rollback";
    if (limpet_checkpoint(client, "a", "n", true, &taken) || limpet_checkpoints(client, "a", &list) ||
        limpet_rollback(client, "a", "n", &back) || limpet_drop(client, "a", "n") ||
        limpet_branch(client, "a", "b", NULL, &opened) ||
        limpet_fork(client, "a", (const char *const[]){"c", "d"}, 2, forks) || limpet_sleep(client, "a") ||
        limpet_context(client, "a", "js", "javascript", NULL, NULL) ||
        limpet_commit(client, "a", "b", &count, &epoch) || limpet_commit(client, "a", "b", NULL, NULL) ||
        limpet_namespace(client, "a", &names) || limpet_run(client, &request, ret))
        return limpet_error(client)->number;
    print_checkpoint(&taken->checkpoint);
    print_texts("dropped", taken->dropped, taken->n_dropped);
    printf("%d checkpoint\n", (int)list->n_checkpoints);
    print_checkpoint(&list->checkpoints[0]);
    printf("%s %d %d %d\n", back->checkpoint, (int)back->execution_count, (int)back->epoch,
           back->files_restored);
    print_texts("not restored", back->not_restored, back->n_not_restored);
    printf("%s %s %d\n%d %d\n", opened.session, opened.instance, opened.created, (int)count, (int)epoch);
    printf("forks %s %s\n", forks[0].session, forks[1].session);
    print_variables("variable", names->variables, names->n_variables);
    printf("more %d\n", (int)names->more);
    print_state(*ret);
    limpet_taken_free(taken);
    limpet_checkpoints_free(list);
    limpet_rollback_free(back);
    limpet_namespace_free(names);
    return 0;
}

static int attach(LimpetClient *client)
{
    LimpetOpened opened;

    if (limpet_attach(client, "a", &opened))
        return limpet_error(client)->number;
    printf("%s %s created=%d\n", opened.session, opened.instance, opened.created);
    return 0;
}

int main(int argc, char **argv)
{
    LimpetClient *client = limpet_new();
    LimpetResult *result = NULL;
    int r = 0;

    if (strcmp(argv[2], "impatient") == 0)
        limpet_set_reconnect_timeout(client, 0.2);
    if (strcmp(argv[2], "unconnected") != 0)
        r = limpet_connect(client, argv[1]);
    if (strcmp(argv[2], "forsaken") == 0)
        limpet_set_reconnect_timeout(client, 0.2);
    if (!r && strcmp(argv[2], "result") == 0)
        r = limpet_result(client, "run", LIMPET_FOREVER, &result);
    else if (!r && strcmp(argv[2], "state") == 0)
        r = state(client, &result);
    else if (!r && strcmp(argv[2], "attach") == 0)
        r = attach(client);
    else if (!r && strcmp(argv[2], "features") != 0)
        r = run(client, &result);
    if (!r && strcmp(argv[2], "features") == 0)
        print_texts("feature", limpet_controller(client)->features, limpet_controller(client)->n_features);
    if (r)
        r = fail(client);
    else if (result)
        print_result(result);
    else if (strcmp(argv[2], "result") == 0)
        printf("still running\n");
    limpet_result_free(result);
    limpet_free(client);
    return r;
}
