#include "guest/interpreter/checkpoint/openmp.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "proto/base/base.h"

#define LIBRARIES_MAX 8u /* wheels bring copies of their own */
#define PAUSE_HARD    2  /* omp_pause_hard */

typedef int PauseFunction(int kind);

static struct {
    unsigned long long loaded; /* how many objects had ever been loaded when the list was made */
    PauseFunction *pause[LIBRARIES_MAX];
    size_t n;
} openmp;

static int read_counter(struct dl_phdr_info *info, size_t size, void *ret)
{
    *(unsigned long long *)ret = info->dlpi_adds;
    return 1;
}

typedef struct Names {
    char *items[LIBRARIES_MAX];
    size_t n;
} Names;

static int collect(struct dl_phdr_info *info, size_t size, void *ret)
{
    Names *names = ret;
    const char *slash = strrchr(info->dlpi_name, '/');

    if (strncmp(slash ? slash + 1 : info->dlpi_name, "libgomp", strlen("libgomp")) == 0 &&
        (names->items[names->n] = strdup(info->dlpi_name)))
        names->n++;
    return names->n == LIBRARIES_MAX;
}

/* The library stays loaded from here on, so that the function stays where it is. */
static void add(const char *path)
{
    void *library = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
    PauseFunction *pause = library ? (PauseFunction *)dlsym(library, "omp_pause_resource_all") : NULL;

    if (pause)
        openmp.pause[openmp.n++] = pause;
}

static void find_libraries(void)
{
    Names names = {.n = 0};

    dl_iterate_phdr(collect, &names);
    openmp.n = 0;
    for (size_t i = 0; i < names.n; i++) {
        add(names.items[i]);
        free(names.items[i]);
    }
}

void openmp_pause(void)
{
    unsigned long long loaded = 0;

    dl_iterate_phdr(read_counter, &loaded);
    if (loaded != openmp.loaded) {
        openmp.loaded = loaded;
        find_libraries();
    }
    for (size_t i = 0; i < openmp.n; i++)
        openmp.pause[i](PAUSE_HARD);
}
