#include "clients/c/saving/place.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "clients/c/saving/archive_check.h"
#include "clients/c/saving/pack.h"

int place_make(char ret[static PLACE_SIZE], Problem *problem)
{
    uint64_t random;

    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        return problem_set(problem, ERR_INTERNAL, "there are no random numbers");
    snprintf(ret, PLACE_SIZE, "%s/%s-saved-%016llx", SAVING_TOP, SAVING_OWN, (unsigned long long)random);
    return 0;
}

void place_remove(LimpetClient *client, const char *session, const char *place)
{
    Problem problem = client->problem;

    limpet_files_remove(client, session, place, true);
    client->problem = problem;
}
