#include "host/template/templates.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/base/fdio.h"
#include "proto/base/log.h"

/* ---- as stored ---- */

#define SCHEMA_FILE "host/template/template.def"
#include "proto/schema/as_structs.h"
#define SCHEMA_FILE "host/template/template.def"
#include "proto/schema/as_tables.h"

int stored_encode(Buf *ret, const Template *tmpl)
{
    StoredTemplate stored = {
        .id = text_of(tmpl->id),
        .name = text_of(tmpl->name),
        .user = tmpl->user,
        .image = text_of(*tmpl->image ? tmpl->image : NULL),
        .setup = text_of(tmpl->setup),
        .packages = text_of(tmpl->packages),
        .files = tmpl->files,
        .created = tmpl->created,
    };

    if (tmpl->env.size > 0)
        stored.env = value_encoded(&tmpl->env);
    return body_encode(ret, StoredTemplate, &stored);
}

static bool is_hexadecimal(Text text)
{
    for (size_t i = 0; i < text.size; i++)
        if (!memchr("0123456789abcdef", text.data[i], 16))
            return false;
    return true;
}

static int take_stored(Template **ret, const StoredTemplate *stored, Problem *problem)
{
    Buf env _cleanup_(buf_deinit) = BUF_NULL;
    Template *tmpl;
    Writer w;
    int r = 0;

    if (stored->id.size != TEMPLATE_ID_SIZE - 1 || !is_hexadecimal(stored->id) ||
        !is_hexadecimal(stored->packages))
        return problem_set(problem, ERR_BAD_REQUEST, "an invalid id");
    if (stored->env.map) {
        writer_init(&w, &env);
        write_object(&w, &(msgpack_object){.type = MSGPACK_OBJECT_MAP, .via.map = *stored->env.map});
        r = writer_finish(&w);
    }
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    r = template_new(&tmpl, (uid_t)stored->user, stored->name, stored->image, &env, stored->setup, problem);
    if (r < 0)
        return r;
    if (stored->packages.data && !(tmpl->packages = text_dup(stored->packages))) {
        template_unref(tmpl);
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    }
    memcpy(tmpl->id, stored->id.data, stored->id.size);
    tmpl->files = stored->files;
    tmpl->created = stored->created;
    *ret = tmpl;
    return 0;
}

int stored_decode(Template **ret, const void *bytes, size_t size, Problem *problem)
{
    msgpack_unpacked unpacked;
    StoredTemplate stored = {0};
    int r;

    if (wire_check(bytes, size) < 0)
        return problem_set(problem, ERR_BAD_REQUEST, "it is damaged");
    msgpack_unpacked_init(&unpacked);
    if (msgpack_unpack_next(&unpacked, bytes, size, NULL) != MSGPACK_UNPACK_SUCCESS ||
        unpacked.data.type != MSGPACK_OBJECT_MAP)
        r = problem_set(problem, ERR_BAD_REQUEST, "it is damaged");
    else
        r = body_decode(&stored, StoredTemplate, &unpacked.data.via.map, problem);
    if (r == 0)
        r = take_stored(ret, &stored, problem);
    msgpack_unpacked_destroy(&unpacked);
    return r;
}

/* More than any that was written. */
#define STORED_MAX (LIMIT_CODE + (4u << 20))

typedef char StoredName[LIMIT_SESSION_NAME + 16];

static void stored_name(StoredName ret, const Template *tmpl)
{
    snprintf(ret, sizeof(StoredName), "%u@%s", (unsigned)tmpl->user, tmpl->name);
}

/* Name of the file until it is on disk. */
static void new_name(StoredName ret, const Template *tmpl)
{
    snprintf(ret, sizeof(StoredName), ".%s", tmpl->id);
}

/* ---- writing ---- */

static int open_directory(const Templates *templates)
{
    int fd;

    if (mkdir(templates->paths->templates, 0700) < 0 && errno != EEXIST)
        return -errno;
    fd = open(templates->paths->templates, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int write_new(const Templates *templates, const Template *tmpl)
{
    _cleanup_(closep) int directory = open_directory(templates), fd = -1;
    Buf bytes _cleanup_(buf_deinit) = BUF_NULL;
    StoredName name;
    int r = directory < 0 ? directory : stored_encode(&bytes, tmpl);

    if (r < 0)
        return r;
    new_name(name, tmpl);
    fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : write_all(fd, buf_head(&bytes), bytes.size);
}

static int rename_new(const Templates *templates, const Template *tmpl)
{
    _cleanup_(closep) int directory = open_directory(templates);
    StoredName from, to;

    if (directory < 0)
        return directory;
    new_name(from, tmpl);
    stored_name(to, tmpl);
    return renameat(directory, from, directory, to) < 0 ? -errno : 0;
}

static void remove_new(const Templates *templates, const Template *tmpl)
{
    _cleanup_(closep) int directory = open_directory(templates);
    StoredName name;

    new_name(name, tmpl);
    if (directory >= 0)
        unlinkat(directory, name, 0);
}

/* ---- reading ---- */

static int read_stored(Buf *ret, int directory, const char *name)
{
    _cleanup_(closep) int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    uint8_t *room;
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > (off_t)STORED_MAX)
        return -EBADMSG;
    room = buf_reserve(ret, (size_t)st.st_size);
    n = room ? read_whole(fd, room, (size_t)st.st_size) : -ENOMEM;
    if (n > 0)
        buf_commit(ret, (size_t)n);
    return n < 0 ? (int)n : 0;
}

/* Loads one template. Returns whether it can be found now. */
static bool load_one(Templates *templates, int directory, const char *name)
{
    Buf bytes _cleanup_(buf_deinit) = BUF_NULL;
    Problem problem = PROBLEM_NULL;
    Template *tmpl = NULL;
    StoredName right = "";
    int r = read_stored(&bytes, directory, name);

    if (r < 0)
        problem_set(&problem, ERR_INTERNAL, "%s", strerror(-r));
    else
        stored_decode(&tmpl, buf_head(&bytes), bytes.size, &problem);
    if (tmpl)
        stored_name(right, tmpl);
    if (tmpl && strcmp(right, name) == 0) {
        list_append(&templates->all, &tmpl->link);
        return true;
    }
    template_unref(tmpl);
    log_error("template unusable", "name=%s reason=%s", name,
              problem.code == ERR_NONE ? "it is that of another one" : problem.text);
    return false;
}

static void write_ids(Writer *w, const void *source)
{
    const Templates *templates = source;
    const Template *tmpl;
    size_t n = 0;

    list_foreach (tmpl, &templates->all, Template, link)
        n++;
    write_array(w, n);
    list_foreach (tmpl, &templates->all, Template, link)
        write_text(w, tmpl->id);
}

/* Takes the handle. Whether all of them could be read. */
static bool load_all(Templates *templates, int fd)
{
    DIR *stream = fdopendir(fd);
    bool complete = true;

    if (!stream) {
        close_fd(&fd);
        return false;
    }
    for (struct dirent *entry; (entry = readdir(stream));)
        if (entry->d_name[0] != '.')
            complete &= load_one(templates, dirfd(stream), entry->d_name);
        else if (entry->d_type == DT_REG)
            unlinkat(dirfd(stream), entry->d_name, 0); /* nobody was told of it */
    closedir(stream);
    return complete;
}

/* Loads the templates. When one could not be read all files of templates are kept, for whoever mends it. */
void templates_load(Templates *templates, const Paths *paths, FileServiceClient *file_service)
{
    const JobTemplates kept = {.templates = {.write = write_ids, .source = templates}};
    int directory;

    *templates = (Templates){.paths = paths, .file_service = file_service};
    list_init(&templates->all);
    directory = open_directory(templates);
    if (directory < 0)
        log_error("templates cannot be read", "path=%s reason=%s", paths->templates, strerror(-directory));
    else if (load_all(templates, directory))
        file_service_tell(file_service, JOB_SWEEP_TEMPLATES, &kept);
}

void templates_deinit(Templates *templates)
{
    Template *tmpl;

    if (templates->paths)
        list_foreach (tmpl, &templates->all, Template, link)
            template_unref(tmpl);
}

/* ---- those that there are ---- */

static Template *find(const Templates *templates, uid_t user, Text name)
{
    Template *tmpl;

    list_foreach (tmpl, &templates->all, Template, link)
        if (tmpl->user == user && text_equal(name, tmpl->name))
            return tmpl;
    return NULL;
}

Template *templates_find(const Templates *templates, uid_t user, Text name, bool shared)
{
    Template *own = find(templates, user, name);

    return own || !shared ? own : find(templates, templates->paths->user, name);
}

const char *templates_packages(const Templates *templates, size_t i)
{
    Template *tmpl;

    list_foreach (tmpl, (List *)&templates->all, Template, link)
        if (tmpl->packages && i-- == 0)
            return tmpl->packages;
    return NULL;
}

size_t templates_count(const Templates *templates, uid_t user)
{
    const Template *tmpl;
    size_t n = 0;

    list_foreach (tmpl, &templates->all, Template, link)
        n += tmpl->user == user;
    return n;
}

static int refuse_to_write(int error, Problem *problem)
{
    return problem_set(problem, ERR_INTERNAL, "the template cannot be written down: %s", strerror(-error));
}

int templates_write(Templates *templates, const Template *tmpl, FileServiceDone *done, void *userdata,
                    Problem *problem)
{
    int r = write_new(templates, tmpl);

    if (r == 0)
        r = file_service_ask(templates->file_service, tmpl->user, JOB_SYNC_STATE, &(JobNothing){0}, done,
                             userdata);
    return r < 0 ? refuse_to_write(r, problem) : 0;
}

int templates_keep(Templates *templates, Template *tmpl, Template **ret_old, Problem *problem)
{
    Template *old = find(templates, tmpl->user, text_of(tmpl->name));
    int r = rename_new(templates, tmpl);

    if (r < 0)
        return refuse_to_write(r, problem);
    if (old)
        list_remove(&old->link);
    list_append(&templates->all, &tmpl->link);
    *ret_old = old;
    return 0;
}

int templates_forget(Templates *templates, Template *tmpl, Problem *problem)
{
    _cleanup_(closep) int directory = open_directory(templates);
    StoredName name;

    stored_name(name, tmpl);
    if (directory < 0 || (unlinkat(directory, name, 0) < 0 && errno != ENOENT))
        return problem_set(problem, ERR_INTERNAL, "the template cannot be removed: %s",
                           strerror(directory < 0 ? -directory : errno));
    list_remove(&tmpl->link);
    return 0;
}

void templates_discard(Templates *templates, Template *tmpl)
{
    const JobTemplateGone gone = {.template = text_of(tmpl->id)};

    remove_new(templates, tmpl);
    if (tmpl->files != NO_UINT)
        file_service_tell(templates->file_service, JOB_DROP_TEMPLATE, &gone);
    template_unref(tmpl);
}
