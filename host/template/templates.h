/* Templates: all that a controller has, and what is written down of them:
 *
 *   templates/USER@NAME    what is said of one, a StoredTemplate; a template is there when this file is
 *   templates/.ID          the same until it is on disk
 *   template-files/ID      its files, which the file service has
 *
 * Each user has names of their own, and may use those of the controller's user as well. */
#pragma once

#include "host/config/paths.h"
#include "host/file_service/client/file_service_client.h"
#include "host/template/template.h"

typedef struct Templates {
    const Paths *paths;
    FileServiceClient *file_service;
    List all; /* Template.link */
} Templates;

/* Reads those that an earlier controller had, and has the files removed that are of none. */
void templates_load(Templates *templates, const Paths *paths, FileServiceClient *file_service);
void templates_deinit(Templates *templates);

/* Finds the template of this user, or, where `shared`, otherwise that of the controller's user. NULL: there
 * is none. */
Template *templates_find(const Templates *templates, uid_t user, Text name, bool shared);
size_t templates_count(const Templates *templates, uid_t user);

/* The set of packages of one, from 0 on; NULL: no more. */
const char *templates_packages(const Templates *templates, size_t i);

/* Writes down a template that nobody can find yet. `done` is told when that is on disk, unless this is
 * negative with the problem set. */
int templates_write(Templates *templates, const Template *tmpl, FileServiceDone *done, void *userdata,
                    Problem *problem);

/* Has a template that is written down found from now on, also by the next controller; *ret_old, to be given
 * up, is the one that had the name, or NULL. 0, or negative with the problem set and nothing changed. */
int templates_keep(Templates *templates, Template *tmpl, Template **ret_old, Problem *problem);

/* Nobody finds it any more. 0, or negative with the problem set. */
int templates_forget(Templates *templates, Template *tmpl, Problem *problem);

/* The files go of one that nobody can find, and it is unreferenced. */
void templates_discard(Templates *templates, Template *tmpl);

/* ---- their stored form: one StoredTemplate ---- */

/* 0 or a negative errno. */
int stored_encode(Buf *ret, const Template *tmpl);

/* Decodes a template that nobody can find yet. -EPROTO with the problem set when these bytes are none. */
int stored_decode(Template **ret, const void *bytes, size_t size, Problem *problem);
