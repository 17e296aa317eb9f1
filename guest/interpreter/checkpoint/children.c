#include "guest/interpreter/checkpoint/children.h"

#include <ctype.h>
#include <string.h>

#include "proto/base/proc.h"

/* Only letters, digits and the like, whatever a process calls itself. */
static void read_name(pid_t pid, char *ret, size_t size)
{
    if (proc_read(pid, "comm", ret, size) < 0)
        *ret = '\0';
    ret[strcspn(ret, "\n")] = '\0';
    for (char *c = ret; *c; c++) {
        if (!isascii(*c) || !isprint(*c))
            *c = '?';
    }
}

static int note_child(void *notes, pid_t pid)
{
    char name[64];

    read_name(pid, name, sizeof(name));
    notes_add(notes, "child process %d (%s) is gone", (int)pid, name);
    return 0;
}

void children_note(Notes *notes)
{
    proc_each_child(0, note_child, notes);
}
