/* Intrusive doubly linked list. A List is a head; a link in no list points at itself. */
#pragma once

#include "proto/base/base.h"

typedef struct List {
    struct List *prev, *next;
} List;

#define LIST_INIT(name) ((List){&(name), &(name)})

static inline void list_init(List *list)
{
    list->prev = list->next = list;
}
static inline bool list_empty(const List *list)
{
    return list->next == list;
}
static inline void list_remove(List *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}
static inline void list_append(List *list, List *link)
{
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}
static inline List *list_first(List *list)
{
    return list_empty(list) ? NULL : list->next;
}

#define list_entry(link, type, member) container_of(link, type, member)

/* The current entry may be removed inside the body. */
#define list_foreach(entry, list, type, member)                                                              \
    for (List *l_ = (list)->next, *n_ = l_->next;                                                            \
         l_ != (list) && ((entry) = list_entry(l_, type, member), true); l_ = n_, n_ = l_->next)
