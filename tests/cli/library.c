/* A user of liblimpet in strict C99, for test_library.py: one line of output per thing that happened.
 * library SOCKET run|result|unconnected */
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

int main(int argc, char **argv)
{
    LimpetClient *client = limpet_new();
    LimpetResult *result = NULL;
    int r = 0;

    if (strcmp(argv[2], "unconnected") != 0)
        r = limpet_connect(client, argv[1]);
    if (!r && strcmp(argv[2], "result") == 0)
        r = limpet_result(client, "run", LIMPET_FOREVER, &result);
    else if (!r)
        r = run(client, &result);
    if (r)
        r = fail(client);
    else if (result)
        print_result(result);
    else
        printf("still running\n");
    limpet_result_free(result);
    limpet_free(client);
    return r;
}
