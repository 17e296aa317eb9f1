/* Disks of sessions: the launcher makes, mounts and unmounts them for the files worker. */
#include <errno.h>
#include <string.h>

#include "host/files/session_disk.h"
#include "host/launcher/internal.h"

/* Disks that are asked for at once. */
#define DISKS_MAX 1024

typedef struct DiskJob {
    WorkerJob job;
    Launcher *launcher;
    int session, socket;
    bool is_there; /* only to be mounted */
    DiskSize size;
    int result;
    Problem problem;
} DiskJob;

static void disk_run(WorkerJob *job)
{
    DiskJob *disk = container_of(job, DiskJob, job);

    disk->result = disk->is_there ? session_disk_mount(disk->session, &disk->problem)
                                  : session_disk_make(disk->session, disk->size, &disk->problem);
}

static void disk_free(DiskJob *disk)
{
    close_fd(&disk->session);
    free(disk);
}

static void disk_done(WorkerJob *job)
{
    DiskJob *disk = container_of(job, DiskJob, job);

    disk->launcher->making--;
    launcher_answer(disk->launcher->files_worker.pid, disk->socket, disk->result, &disk->problem);
    disk_free(disk);
}

static int begin_disk(Launcher *launcher, const Demand *demand, int socket)
{
    DiskJob *disk = launcher->making < DISKS_MAX ? calloc(1, sizeof(*disk)) : NULL;
    int r;

    if (!disk)
        return -EAGAIN;
    *disk = (DiskJob){
        .launcher = launcher, .socket = socket, .is_there = demand->kind == SEAM_MOUNT, .size = demand->disk};
    disk->session = sources_session(&launcher->sources, demand->directory);
    r = disk->session < 0 ? disk->session : worker_submit(launcher->makers, &disk->job, disk_run, disk_done);
    if (r < 0)
        disk_free(disk);
    else
        launcher->making++;
    return r;
}

static void make_or_mount_disk(Launcher *launcher, const Demand *demand, int socket)
{
    Problem problem = PROBLEM_NULL;
    int r = begin_disk(launcher, demand, socket);

    if (r == 0)
        return;
    problem_set(&problem, ERR_INTERNAL, "the disk of the session cannot be had now: %s", strerror(-r));
    launcher_answer(launcher->files_worker.pid, socket, r, &problem);
}

static void detach_disk(Launcher *launcher, const Demand *demand, int socket)
{
    int session _cleanup_(closep) = sources_session(&launcher->sources, demand->directory);

    if (session >= 0)
        session_disk_detach(session);
    launcher_answer(launcher->files_worker.pid, socket, 0, &PROBLEM_NULL);
}

int launcher_on_files_message(Rpc *rpc, const Message *message, Descriptors *descriptors)
{
    Launcher *launcher = container_of(rpc, Launcher, files);
    const DemandRules rules = {launcher->config->paths->owner, launcher->config->options->allow_network};
    Demand demand;

    if (demand_read(&demand, message, &rules) < 0 || descriptors->n != demand_descriptors(&demand))
        return -EBADMSG;
    switch (demand.kind) {
    case SEAM_UNABLE:
        launcher->problem = demand.problem;
        return 0;
    case SEAM_DISK:
    case SEAM_MOUNT:
        make_or_mount_disk(launcher, &demand, descriptors_take(descriptors, 0));
        return 0;
    case SEAM_DETACH:
        detach_disk(launcher, &demand, descriptors_take(descriptors, 0));
        return 0;
    default:
        return -EBADMSG;
    }
}
