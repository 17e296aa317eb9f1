#include "host/install/installs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/config/package_index.h"
#include "host/files/sha256.h"
#include "host/install/requirements.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* Containers at once; further ones wait. */
#define INSTALLERS_MAX 4
#define COARSE         0.1 /* seconds that the times of files lag behind, at most */

typedef enum InstallState {
    INSTALL_WAITING,   /* for another one of its session, or for an installer */
    INSTALL_ASKING,    /* the store */
    INSTALL_RUNNING,   /* an installer does it */
    INSTALL_ATTACHING, /* what is stored to the session's container */
    INSTALL_OVER,      /* told, and the store is still to answer */
} InstallState;

typedef struct Install {
    List link; /* Installs.wanted */
    Installs *all;
    InstallState state;
    bool missed; /* the store does not have it */
    bool fresh, builds;
    Installer *installer;
    char instance[INSTANCE_SIZE]; /* of the session's sandbox */
    char request[PACKAGES_NAME_SIZE], before[PACKAGES_NAME_SIZE];
    Buf requirements;
    char set[PACKAGES_NAME_SIZE]; /* of one that is ATTACHING: what it gets */
    Buf lock;                     /* of that */
    bool cached;                  /* it was there already */
    uint64_t began;
    double timeout; /* seconds */
    LoopTimer timer;
    LoopIdle idle;
    const InstallEvents *events;
    void *userdata;
} Install;

static void start_waiting(Installs *all);

/* ---- its end ---- */

static void install_free(Install *install)
{
    list_remove(&install->link);
    loop_timer_cancel(&install->timer);
    loop_idle_remove(&install->idle);
    buf_deinit(&install->requirements);
    buf_deinit(&install->lock);
    free(install);
}

static bool is_wanted(const Installs *all, const Installer *installer)
{
    const Install *install;

    list_foreach (install, (List *)&all->wanted, Install, link)
        if (install->installer == installer)
            return true;
    return false;
}

/* Leaves the installer of an install, and stops it if nobody waits for it any more. */
static void leave_installer(Install *install)
{
    Installer *installer = install->installer;

    install->installer = NULL;
    if (installer && !is_wanted(install->all, installer))
        installer_stop(installer);
}

static Sandbox *find_sandbox(const Install *install);

/* Its session's time counts again. */
static void release(const Install *install)
{
    Sandbox *sandbox = find_sandbox(install);

    if (!sandbox)
        return;
    sandbox->installing--;
    if (sandbox->root && !sandbox_is_busy(sandbox))
        sandbox->owner->rested(sandbox, sandbox->root);
}

/* Somebody is told: what waits is next. */
static void end(Install *install)
{
    Installs *all = install->all;
    bool asking = install->state == INSTALL_ASKING;

    release(install);
    install->state = INSTALL_OVER;
    loop_timer_cancel(&install->timer);
    leave_installer(install);
    if (!asking)
        install_free(install);
    start_waiting(all);
}

static void fail(Install *install, const Problem *problem, Text log)
{
    install->events->failed(install->userdata, problem, log);
    end(install);
}

static void on_due(LoopTimer *timer)
{
    Install *install = container_of(timer, Install, timer);
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, ERR_INSTALL_FAILED, "the packages were not installed within %g seconds",
                install->timeout);
    fail(install, &problem, (Text){0});
}

/* ---- into the session ---- */

static Sandbox *find_sandbox(const Install *install)
{
    Sandbox *sandbox;

    list_foreach (sandbox, &install->all->sandboxes->list, Sandbox, link)
        if (strcmp(sandbox->instance, install->instance) == 0)
            return sandbox->state == SANDBOX_READY ? sandbox : NULL;
    return NULL;
}

/* Tells whoever asked that the session has the packages. */
static void succeed(Install *install, Sandbox *sandbox)
{
    log_info("packages installed", "session=%s packages=%s cached=%d", sandbox->name, install->set,
             install->cached);
    install->events->done(install->userdata,
                          &(Installed){{(const char *)buf_head(&install->lock), install->lock.size},
                                       install->cached,
                                       (double)(clock_now() - install->began) / NSEC_PER_SEC});
    end(install);
}

static void on_attached(void *userdata, int result, const Problem *problem)
{
    Install *install = userdata;
    Sandbox *sandbox = find_sandbox(install);
    Problem closed = PROBLEM_NULL;

    if (!sandbox)
        problem_set(&closed, ERR_SESSION_CLOSED, "the session was closed while packages were installed");
    if (!sandbox || result < 0) {
        fail(install, sandbox ? problem : &closed, (Text){0});
        return;
    }
    if (strcmp(sandbox->packages, install->set) != 0) {
        memcpy(sandbox->packages, install->set, sizeof(sandbox->packages));
        install->all->installed(sandbox);
    }
    succeed(install, sandbox);
}

static int attach(Install *install, Sandbox *sandbox, Problem *problem)
{
    if (strcmp(sandbox->packages, install->set) == 0)
        return 0;
    return sandbox->all->engine->ops->attach_packages(sandbox->container, install->set,
                                                      &(AttachDone){on_attached, install}, problem);
}

/* The packages are stored: all that is left to be waited for is a mount. */
static void finish(Install *install, const char *set, Text lock, bool cached)
{
    Sandbox *sandbox = find_sandbox(install);
    Problem problem = PROBLEM_NULL;
    int r = buf_append(&install->lock, lock.data, lock.size);

    install->state = INSTALL_ATTACHING;
    install->cached = cached;
    snprintf(install->set, sizeof(install->set), "%s", set);
    loop_timer_cancel(&install->timer);
    if (r < 0)
        problem_set(&problem, ERR_INTERNAL, "out of memory");
    else if (sandbox)
        r = attach(install, sandbox, &problem);
    if (r != ATTACH_ASKED)
        on_attached(install, r, &problem);
}

/* ---- by an installer ---- */

/* The end of one may begin others, so that each is looked for from the start. */
static Install *first_of(const Installer *installer)
{
    const Installs *all = installer->userdata;
    Install *install;

    list_foreach (install, (List *)&all->wanted, Install, link)
        if (install->installer == installer)
            return install;
    return NULL;
}

static void on_output(Installer *installer, const MsgOutput *output, Text body)
{
    Installs *all = installer->userdata;
    const Install *install;

    list_foreach (install, &all->wanted, Install, link)
        if (install->installer == installer && install->events->output)
            install->events->output(install->userdata, output, body);
}

static void set_trim(Installs *all);

static void on_stored(Installer *installer, const char *name, Text lock)
{
    Install *install;

    while ((install = first_of(installer))) {
        install->installer = NULL;
        finish(install, name, lock, false);
    }
    set_trim(installer->userdata);
}

static void on_failed(Installer *installer, const Problem *problem, Text log)
{
    Install *install;

    while ((install = first_of(installer))) {
        install->installer = NULL;
        fail(install, problem, log);
    }
}

static void on_gone(Installer *installer)
{
    start_waiting(installer->userdata);
}

static const InstallerEvents installer_events = {
    .output = on_output,
    .stored = on_stored,
    .failed = on_failed,
    .gone = on_gone,
};

/* Finds the installer that does the same already, or begins a new one. NULL with the problem set, or (no
 * problem) when the install has to wait. */
static Installer *find_installer(Install *install, const char *image, Problem *problem)
{
    Installs *all = install->all;
    const InstallerOrder order = {
        .request = install->request,
        .image = image,
        .before = install->before,
        .requirements = {(const char *)buf_head(&install->requirements), install->requirements.size},
        .fresh = install->fresh,
        .builds = install->builds,
    };
    Installer *installer;
    size_t n = 0;

    list_foreach (installer, &all->installers, Installer, link) {
        if (!installer->told && strcmp(installer->request, install->request) == 0 &&
            strcmp(installer->before, install->before) == 0)
            return installer;
        n++;
    }
    if (n >= INSTALLERS_MAX ||
        installer_begin(&installer, all->sandboxes, &order, &installer_events, all, problem) < 0)
        return NULL;
    list_append(&all->installers, &installer->link);
    return installer;
}

static void run(Install *install)
{
    const Sandbox *sandbox = find_sandbox(install);
    Problem problem = PROBLEM_NULL;

    if (!sandbox) {
        problem_set(&problem, ERR_SESSION_CLOSED, "the session was closed before packages were installed");
        fail(install, &problem, (Text){0});
        return;
    }
    install->state = INSTALL_WAITING;
    install->missed = true;
    install->installer = find_installer(install, sandbox->options.image, &problem);
    if (install->installer)
        install->state = INSTALL_RUNNING;
    else if (problem.code != ERR_NONE)
        fail(install, &problem, (Text){0});
}

/* ---- from the store ---- */

static void on_found(void *userdata, FileServiceAnswer *answer)
{
    Install *install = userdata;
    const JobPackages *packages = answer->problem ? NULL : &answer->body->as_PACKAGES_FIND;
    char name[PACKAGES_NAME_SIZE];

    if (install->state == INSTALL_OVER) {
        install_free(install);
        return;
    }
    install->state = INSTALL_WAITING;
    if (!packages || !packages->hash.data) {
        run(install);
        return;
    }
    snprintf(name, sizeof(name), "%.*s", (int)packages->hash.size, packages->hash.data);
    finish(install, name, packages->lock, true);
}

/* Hashes all that decides about the result, besides the set that is there already. */
static int make_request(Install *install, const Sandbox *sandbox)
{
    const Sandboxes *all = install->all->sandboxes;
    IndexUrl index = package_index_url(all->options);
    const char *image = sandboxes_image(all, sandbox->options.image);
    const struct {
        const void *bytes;
        size_t size;
    } parts[] = {
        {sandboxes_engine(all), strlen(sandboxes_engine(all)) + 1},
        {image, strlen(image) + 1},
        {index.text, index.size},
        {install->fresh ? "1" : "0", 2},
        {install->builds ? "1" : "0", 2},
        {buf_head(&install->requirements), install->requirements.size},
    };
    uint8_t digest[SHA256_SIZE];
    Sha256 sha _cleanup_(sha256_deinit) = SHA256_NULL;
    int r = sha256_start(&sha);

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parts); i++)
        r = sha256_update(&sha, parts[i].bytes, parts[i].size);
    if (r == 0)
        r = sha256_finish(&sha, digest);
    if (r == 0)
        hex_encode(install->request, digest, SHA256_SIZE);
    return r;
}

static int ask_store(Install *install)
{
    const Sandboxes *all = install->all->sandboxes;
    const JobFindPackages find = {.before = text_of(install->before),
                                  .request = text_of(install->request),
                                  .max_age = all->options->packages_age};

    install->state = INSTALL_ASKING;
    return file_service_ask(all->file_service, NOBODYS, JOB_PACKAGES_FIND, &find, on_found, install);
}

static void start(Install *install)
{
    const Sandbox *sandbox = find_sandbox(install);
    Problem problem = PROBLEM_NULL;

    if (install->missed || !sandbox) {
        run(install);
        return;
    }
    memcpy(install->before, sandbox->packages, sizeof(install->before));
    if (make_request(install, sandbox) == 0 && ask_store(install) == 0)
        return;
    install->state = INSTALL_WAITING;
    problem_set(&problem, ERR_INTERNAL, "out of memory");
    fail(install, &problem, (Text){0});
}

/* ---- waiting ---- */

static bool comes_first(const Install *install)
{
    const Install *other;

    list_foreach (other, (List *)&install->all->wanted, Install, link) {
        if (other == install)
            return true;
        if (other->state != INSTALL_OVER && strcmp(other->instance, install->instance) == 0)
            return false;
    }
    return true;
}

static void on_idle(LoopIdle *idle)
{
    Install *install = container_of(idle, Install, idle);

    if (install->state == INSTALL_WAITING && comes_first(install))
        start(install);
}

/* Later, for whoever has just ended may not be told of others. */
static void start_waiting(Installs *all)
{
    Install *install;

    list_foreach (install, &all->wanted, Install, link)
        if (install->state == INSTALL_WAITING)
            loop_idle_add(all->sandboxes->loop, &install->idle, on_idle);
}

int install_begin(Installs *all, Sandbox *sandbox, const InstallOrder *order, const InstallEvents *events,
                  void *userdata, Problem *problem)
{
    Install *install = calloc(1, sizeof(*install));

    if (!install)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    if (package_index_url(all->sandboxes->options).size == 0) {
        free(install);
        return problem_set(problem, ERR_INSTALL_FAILED,
                           "no package index is known; set the option package_index of limpetd, or index-url "
                           "in the configuration of the host's pip");
    }
    if (requirements_read(&install->requirements, order->requirements, problem) < 0) {
        buf_deinit(&install->requirements);
        free(install);
        return -EPROTO;
    }
    install->all = all;
    install->events = events;
    install->userdata = userdata;
    install->fresh = order->fresh;
    install->builds = strcmp(sandbox->options.build, "allow") == 0;
    install->began = clock_now();
    install->timeout = order->timeout;
    memcpy(install->instance, sandbox->instance, sizeof(install->instance));
    sandbox->installing++;
    list_append(&all->wanted, &install->link);
    loop_timer_set(all->sandboxes->loop, &install->timer, install->began + clock_from_seconds(order->timeout),
                   on_due);
    loop_idle_add(all->sandboxes->loop, &install->idle, on_idle);
    return 0;
}

/* ---- the store is kept within bounds ---- */

static void write_in_use(Writer *w, const void *source)
{
    const Installs *all = source;
    const Sandbox *sandbox;
    size_t n = 0, promised = 0;

    list_foreach (sandbox, (List *)&all->sandboxes->list, Sandbox, link)
        n += *sandbox->packages != '\0';
    while (all->promised(all->userdata, promised))
        promised++;
    write_array(w, n + promised);
    for (size_t i = 0; i < promised; i++)
        write_text(w, all->promised(all->userdata, i));
    list_foreach (sandbox, (List *)&all->sandboxes->list, Sandbox, link)
        if (*sandbox->packages)
            write_text(w, sandbox->packages);
}

static void on_trimmed(void *userdata, FileServiceAnswer *answer)
{
    Installs *all = userdata;

    all->trimming = false;
    if (answer->body && answer->body->as_PACKAGES_TRIM.removed > 0)
        log_info("removed unused packages", "sets=%llu",
                 (unsigned long long)answer->body->as_PACKAGES_TRIM.removed);
}

/* Returns the time, in Unix seconds, before which everything is settled: what was stored or found since may
 * be on its way to a session that waits for it. */
static double settled_before(const Installs *all)
{
    uint64_t now = clock_now(), first = now;
    const Install *install;

    list_foreach (install, (List *)&all->wanted, Install, link)
        if (install->began < first)
            first = install->began;
    return clock_unix() - (double)(now - first) / NSEC_PER_SEC - COARSE;
}

static void on_trim_due(LoopTimer *timer)
{
    Installs *all = container_of(timer, Installs, trim_timer);
    const JobTrimPackages trim = {.budget = all->sandboxes->options->packages_size,
                                  .before = settled_before(all),
                                  .in_use = {.write = write_in_use, .source = all}};

    if (all->trimming)
        set_trim(all);
    else
        all->trimming = file_service_ask(all->sandboxes->file_service, NOBODYS, JOB_PACKAGES_TRIM, &trim,
                                         on_trimmed, all) == 0;
}

static void set_trim(Installs *all)
{
    loop_timer_set(all->sandboxes->loop, &all->trim_timer, clock_now() + NSEC_PER_SEC, on_trim_due);
}

void installs_init(Installs *all)
{
    list_init(&all->wanted);
    list_init(&all->installers);
}

void installs_deinit(Installs *all)
{
    Install *install;

    loop_timer_cancel(&all->trim_timer);
    list_foreach (install, &all->wanted, Install, link)
        install_free(install);
}
