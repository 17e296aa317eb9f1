/* A short tour of the client library: prints 42. */
#include <limpet.h>
#include <stdio.h>

int main(void)
{
    LimpetClient *client = limpet_new();
    LimpetResult *result = NULL;
    LimpetRun run = {.code = "print(6 * 7)"};
    int failed = limpet_connect(client, NULL) || limpet_run(client, &run, &result);

    if (failed)
        fprintf(stderr, "%s: %s\n", limpet_error(client)->name, limpet_error(client)->message);
    else
        fputs(result->stdout_text, stdout);
    limpet_result_free(result);
    limpet_free(client);
    return failed;
}
