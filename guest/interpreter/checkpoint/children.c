#include "guest/interpreter/checkpoint/children.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* Only letters, digits and the like, whatever a process calls itself. */
static void read_name(int pid, char *ret, size_t size)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    FILE *file = fopen(path, "re");
    *ret = '\0';
    if (!file)
        return;
    if (fgets(ret, (int)size, file))
        ret[strcspn(ret, "\n")] = '\0';
    fclose(file);
    for (char *c = ret; *c; c++) {
        if (!isascii(*c) || !isprint(*c))
            *c = '?';
    }
}

static void note_thread(const char *thread, Notes *notes)
{
    char path[320], name[64];
    int pid;

    snprintf(path, sizeof(path), "/proc/self/task/%s/children", thread);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    while (fscanf(file, "%d", &pid) == 1) {
        read_name(pid, name, sizeof(name));
        notes_add(notes, "child process %d (%s) is gone", pid, name);
    }
    fclose(file);
}

void children_note(Notes *notes)
{
    DIR *threads = opendir("/proc/self/task");
    struct dirent *entry;

    while (threads && (entry = readdir(threads))) {
        if (entry->d_name[0] != '.')
            note_thread(entry->d_name, notes);
    }
    if (threads)
        closedir(threads);
}
