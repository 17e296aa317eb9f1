#include "host/daemon/check.h"

#include <limits.h>
#include <stdio.h>

#include "host/files/beneath.h"
#include "host/files/disk.h"
#include "host/net/authorized.h"
#include "host/net/start.h"
#include "host/pool/pool.h"
#include "host/privilege/confine.h"

EngineConfig engine_config(const Paths *paths, const Options *options)
{
    return (EngineConfig){
        .state_dir = paths->state_dir,
        .images = paths->images,
        .runtime_dir = paths->runtime_dir,
        .owner = paths->owner,
        .oci_runtime = options->oci_runtime,
        .userns = options->userns,
        .docker_socket = options->docker_socket,
        .image = options->image,
        .guest_path = paths->guest,
        .memory = options->memory,
        .cpus = options->cpus,
        .network_proof = options->network_proof,
    };
}

static const char *const marks[] = {[FINDING_OK] = "ok  ", [FINDING_WARN] = "warn", [FINDING_FAIL] = "FAIL"};

typedef struct Tally {
    unsigned failures;
} Tally;

static void print_finding(void *userdata, const EngineFinding *finding)
{
    Tally *tally = userdata;

    printf("  %s  %-14s %s\n", marks[finding->level], finding->topic, finding->text);
    if (finding->advice)
        printf("  %20s → %s\n", "", finding->advice);
    tally->failures += finding->level == FINDING_FAIL;
}

static unsigned check_engine(const EngineOps *ops, const EngineConfig *config)
{
    Tally tally = {0};

    printf("engine %s\n", ops->name);
    ops->check(config, print_finding, &tally);
    return tally.failures;
}

static unsigned check_files(void)
{
    Tally tally = {0};
    bool supported = beneath_supported();

    printf("files\n");
    print_finding(&tally, &(EngineFinding){
                              .level = supported ? FINDING_OK : FINDING_FAIL,
                              .topic = "openat2",
                              .text = supported ? "files are opened safely beneath their session"
                                                : "the kernel cannot open files beneath a directory safely",
                              .advice = supported ? NULL : "use Linux 5.6 or newer",
                          });
    return tally.failures;
}

/* Advice only: sessions work without, but what they write is not bounded. */
static void check_disks(const Paths *paths)
{
    Problem problem = PROBLEM_NULL;
    bool supported = disk_check(paths->state_dir, &problem) == 0;
    char text[sizeof(problem.text) + 128];

    snprintf(text, sizeof(text),
             "the size of /session is not limited (options disk and files have no effect): %s", problem.text);
    print_finding(
        &(Tally){0},
        &(EngineFinding){
            .level = supported ? FINDING_OK : FINDING_WARN,
            .topic = "disks",
            .text = supported ? "/session of each session is a file system with a size limit" : text,
            .advice = supported ? NULL
                                : "run limpetd as root on a host with loop devices, ext4 and the package "
                                  "e2fsprogs",
        });
}

/* Advice only: what is not kept apart works all the same. */
static void say_rights(bool good, const char *topic, const char *text, const char *advice)
{
    print_finding(&(Tally){0}, &(EngineFinding){
                                   .level = good ? FINDING_OK : FINDING_WARN,
                                   .topic = topic,
                                   .text = text,
                                   .advice = good ? NULL : advice,
                               });
}

static void check_landlock(void)
{
    bool supported = landlock_supported();

    say_rights(supported, "landlock",
               supported ? "its rights over files end at the directories of sessions"
                         : "its rights over files hold for the whole host",
               "use Linux 5.19 or newer, with landlock among its security modules");
}

static void check_rights(const Options *options)
{
    Problem problem = PROBLEM_NULL;
    Account account;
    char text[256];

    printf("rights\n");
    if (geteuid() != 0) {
        say_rights(true, "controller", "one process, with the rights of the user who runs it", NULL);
    } else if (account_find(options->user, &account, &problem) < 0) {
        say_rights(false, "controller", problem.text, "make that user, or name another one");
    } else {
        snprintf(text, sizeof(text),
                 "with oci and docker it runs as uid %u, and of root's rights has those over files alone",
                 account.uid);
        say_rights(true, "controller", text, NULL);
        check_landlock();
    }
}

/* Advice only: without spares everything works, and slower. */
static void check_pool(const Options *options)
{
    uint64_t available = memory_available();
    bool off = options->pool == 0, scarce = available < options->memory;
    char text[512];

    if (off)
        snprintf(text, sizeof(text), "none (option pool): opening a session starts a container");
    else if (scarce)
        snprintf(text, sizeof(text),
                 "none while less than %llu MiB of memory are free; %llu MiB are free now",
                 (unsigned long long)(options->memory >> 20), (unsigned long long)(available >> 20));
    else
        snprintf(text, sizeof(text), "%llu for each kind of session in use, at most %llu; imports: %s",
                 (unsigned long long)options->pool,
                 (unsigned long long)MAX(options->pool, options->pool_limit),
                 *options->imports ? options->imports : "nothing");
    printf("spare containers\n");
    print_finding(&(Tally){0},
                  &(EngineFinding){
                      .level = scarce && !off ? FINDING_WARN : FINDING_OK,
                      .topic = "pool",
                      .text = text,
                      .advice = scarce && !off ? "lower the option memory, or free memory" : NULL,
                  });
}

/* Advice only: root can use its controller in any case. */
static void check_users(const Options *options, const Paths *paths)
{
    bool admits = paths->group != NO_GROUP;
    char text[160];

    if (paths->user != 0)
        return;
    if (admits)
        snprintf(text, sizeof(text), "members of %s may use this controller, unless its engine is local",
                 options->group);
    else
        snprintf(text, sizeof(text), "only root may use this controller");
    printf("users\n");
    print_finding(&(Tally){0}, &(EngineFinding){
                                   .level = FINDING_OK,
                                   .topic = "group",
                                   .text = text,
                                   .advice = admits ? NULL : "to admit others: groupadd --system limpet",
                               });
}

static void say_net(bool good, const char *topic, const char *text, const char *advice)
{
    print_finding(&(Tally){0}, &(EngineFinding){.level = good ? FINDING_OK : FINDING_FAIL,
                                                .topic = topic,
                                                .text = text,
                                                .advice = good ? NULL : advice});
}

static void check_keys(const Paths *paths)
{
    Authorized keys _cleanup_(authorized_deinit) = {0};
    Problem problem = PROBLEM_NULL;
    int fd _cleanup_(closep) = authorized_load(paths->authorized_keys, &problem);
    char text[PATH_MAX + 64];
    bool good = fd >= 0 && authorized_read(&keys, fd, &problem) == 0;

    snprintf(text, sizeof(text), "%zu keys in %s", keys.n, paths->authorized_keys);
    say_net(good, "authorized", good ? text : problem.text, "a line is: KEY owner=USER, see docs/remote.md");
}

static void check_net(const Options *options, const Paths *paths)
{
    char key[41], text[128];

    if (!*options->listen)
        return;
    printf("network\n");
    say_net(net_supported(), "address", net_supported() ? options->listen : "limpet-net is not installed",
            "build Limpet with libzmq (LIMPET_NET)");
    check_keys(paths);
    if (!net_public_key(paths->state_dir, key))
        snprintf(text, sizeof(text), "none yet: it is made when limpetd first listens");
    else
        snprintf(text, sizeof(text), "%s (public; clients give it as server_key)", key);
    say_net(true, "server key", text, NULL);
}

int check_host(const Options *options, const Paths *paths)
{
    EngineConfig config = engine_config(paths, options);
    Problem problem = PROBLEM_NULL;
    const EngineOps *chosen =
        *options->engine ? engine_find(options->engine) : engine_choose(&config, &problem);
    unsigned chosen_failures = chosen ? 0 : 1, files = check_files();

    check_disks(paths);
    check_rights(options);
    check_pool(options);
    check_users(options, paths);
    check_net(options, paths);
    for (size_t i = 0; engines[i]; i++) {
        unsigned failures = check_engine(engines[i], &config);
        if (engines[i] == chosen)
            chosen_failures = failures;
    }
    if (chosen)
        printf("\nlimpetd would use the engine %s: %s\n", chosen->name,
               chosen_failures + files == 0 ? "ready" : "not ready, see FAIL above");
    else
        printf("\nno engine can be used: %s\n", problem.text);
    return chosen_failures + files > 0;
}
