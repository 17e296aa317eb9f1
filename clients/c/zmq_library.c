#include "clients/c/zmq_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#define LIBRARY "libzmq.so.5"

static ZmqLibrary library;
static bool loaded;

/* A function as the pointer that dlsym() has: POSIX has both in the same representation. */
static bool find(void *handle, const char *name, void *ret, size_t size)
{
    void *symbol = dlsym(handle, name);

    memcpy(ret, &symbol, size);
    return symbol;
}

static void load(void)
{
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

    loaded = handle;
#define ZMQ_FIND(name) loaded = loaded && find(handle, #name, &library.name, sizeof(library.name));
    ZMQ_FUNCTIONS(ZMQ_FIND)
#undef ZMQ_FIND
}

const ZmqLibrary *zmq_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    return loaded ? &library : NULL;
}
