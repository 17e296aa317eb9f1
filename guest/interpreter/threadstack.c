#include "guest/interpreter/threadstack.h"

#include <pthread.h>
#include <sys/resource.h>

#include "proto/base/base.h"

#define PARTS   128u
#define MINIMUM ((rlim_t)1 << 20)
#define MAXIMUM ((rlim_t)8 << 20)

void threadstack_limit(void)
{
    struct rlimit data;
    pthread_attr_t attributes;

    if (getrlimit(RLIMIT_DATA, &data) < 0 || data.rlim_cur == RLIM_INFINITY)
        return;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, MIN(MAX(data.rlim_cur / PARTS, MINIMUM), MAXIMUM));
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
}
