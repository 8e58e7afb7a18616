/* Creating, joining and leaving communicators; the barrier. */
#include "communicator.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cannsim.h"
#include "point_to_point.h"

static const char FOLDER[] = "/dev/shm/";

/* Defaults of the real HCCL, in seconds. */
enum { CONNECT_TIMEOUT = 120, EXEC_TIMEOUT = 1836 };

static double seconds_from(const char *variable, double fallback)
{
    const char *value = getenv(variable);
    double seconds = value ? atof(value) : 0;
    return seconds > 0 ? seconds : fallback;
}

double comm_patience(void)
{
    return seconds_from("HCCL_EXEC_TIMEOUT", EXEC_TIMEOUT);
}

double comm_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void comm_nap(void)
{
    static const struct timespec pause = {0, 50000};
    nanosleep(&pause, NULL);
}

char *comm_slot(HcclComm comm, uint32_t rank)
{
    return comm->slots + (size_t)rank * SLOT_BYTES;
}

HcclResult comm_barrier(HcclComm comm)
{
    enum { SPINS = 200 }; /* ranks mostly arrive together; with more ranks than cores, sleeping soon is faster */
    Shared *shared = comm->shared;
    unsigned generation = shared->generation;
    if (atomic_fetch_add(&shared->arrived, 1) + 1 == comm->ranks) {
        shared->arrived = 0;
        atomic_fetch_add(&shared->generation, 1);
        return HCCL_SUCCESS;
    }
    double limit = comm_now() + comm_patience();
    for (int spins = 0; shared->generation == generation; spins++) {
        if (spins < SPINS)
            continue;
        if (comm_now() > limit) {
            cannsim_set_error("communicator %s: rank %u waited %.0f s for the others", comm->name, comm->rank,
                              comm_patience());
            return HCCL_E_TIMEOUT;
        }
        comm_nap();
    }
    return HCCL_SUCCESS;
}

static size_t header_bytes(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (sizeof(Shared) + page - 1) / page * page;
}

static size_t file_bytes(uint32_t ranks)
{
    return header_bytes() + (size_t)ranks * SLOT_BYTES;
}

HcclResult HcclGetRootInfo(HcclRootInfo *info)
{
    LOG_CALL();
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    memset(info, 0, sizeof *info);
    snprintf(info->internal, COMM_NAME_MAX_LENGTH, "cannsim-hccl-%d-%lld-%09ld", (int)getpid(), (long long)now.tv_sec,
             now.tv_nsec);
    return HCCL_SUCCESS;
}

/* Maps the file; all of it is reserved now, because a full /dev/shm met later would be a SIGBUS. */
static HcclResult map_file(HcclComm comm, const char *path)
{
    size_t bytes = file_bytes(comm->ranks);
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0) {
        cannsim_set_error("%s: %s", path, strerror(errno));
        return HCCL_E_OPEN_FILE_FAILURE;
    }
    int problem = posix_fallocate(descriptor, 0, (off_t)bytes);
    void *memory = problem ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (memory == MAP_FAILED) {
        cannsim_set_error("%s: no room for %zu MB (%s); give the container more with --shm-size", path, bytes >> 20,
                          strerror(problem ? problem : errno));
        unlink(path);
        return HCCL_E_MEMORY;
    }
    comm->shared = memory;
    comm->slots = (char *)memory + header_bytes();
    return HCCL_SUCCESS;
}

static HcclResult wait_for_peers(HcclComm comm)
{
    double patience = seconds_from("HCCL_CONNECT_TIMEOUT", CONNECT_TIMEOUT), limit = comm_now() + patience;
    atomic_fetch_add(&comm->shared->joined, 1);
    while (comm->shared->joined < comm->ranks) {
        if (comm_now() > limit) {
            cannsim_set_error("communicator %s: %u of %u ranks joined within %.0f s", comm->name, comm->shared->joined,
                              comm->ranks, patience);
            return HCCL_E_TIMEOUT;
        }
        comm_nap();
    }
    return comm_barrier(comm);
}

HcclResult HcclCommInitRootInfo(uint32_t ranks, const HcclRootInfo *info, uint32_t rank, HcclComm *comm)
{
    LOG_CALL_WITH("ranks=%u rank=%u", ranks, rank);
    char path[sizeof FOLDER + COMM_NAME_MAX_LENGTH];
    if (ranks == 0 || ranks > MAX_RANKS || rank >= ranks || !info || !comm) {
        cannsim_set_error("rank %u of %u: at most %d ranks", rank, ranks, MAX_RANKS);
        return HCCL_E_PARA;
    }
    HcclComm created = calloc(1, sizeof *created);
    if (!created)
        return HCCL_E_MEMORY;
    created->ranks = ranks;
    created->rank = rank;
    snprintf(created->name, sizeof created->name, "%.*s", COMM_NAME_MAX_LENGTH - 1, info->internal);
    snprintf(path, sizeof path, "%s%s", FOLDER, created->name);
    HcclResult result = map_file(created, path);
    if (result == HCCL_SUCCESS)
        result = wait_for_peers(created);
    if (rank == 0)
        unlink(path); /* all have mapped it; nothing stays behind when a process is killed */
    if (result != HCCL_SUCCESS) {
        HcclCommDestroy(created);
        return result;
    }
    *comm = created;
    return HCCL_SUCCESS;
}

HcclResult HcclCommInitRootInfoConfig(uint32_t ranks, const HcclRootInfo *info, uint32_t rank, const void *config,
                                      HcclComm *comm)
{
    (void)config;
    return HcclCommInitRootInfo(ranks, info, rank, comm);
}

HcclResult HcclCommDestroy(HcclComm comm)
{
    LOG_CALL();
    if (!comm)
        return HCCL_SUCCESS;
    if (comm->shared) {
        p2p_discard(comm);
        munmap(comm->shared, file_bytes(comm->ranks));
    }
    free(comm);
    return HCCL_SUCCESS;
}

HcclResult HcclGetCommName(HcclComm comm, char *name)
{
    LOG_CALL();
    snprintf(name, COMM_NAME_MAX_LENGTH, "%s", comm->name);
    return HCCL_SUCCESS;
}

HcclResult HcclGetRankId(HcclComm comm, uint32_t *rank)
{
    LOG_CALL();
    *rank = comm->rank;
    return HCCL_SUCCESS;
}

HcclResult HcclGetRankSize(HcclComm comm, uint32_t *ranks)
{
    LOG_CALL();
    *ranks = comm->ranks;
    return HCCL_SUCCESS;
}

/* Polled by torch_npu's watchdog many times a second: not worth a line in the log. */
HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult *error)
{
    (void)comm;
    *error = HCCL_SUCCESS;
    return HCCL_SUCCESS;
}

const char *HcclGetErrorString(HcclResult code)
{
    switch (code) {
    case HCCL_SUCCESS: return "no error";
    case HCCL_E_PARA: return SIMULATED "HCCL: parameter error";
    case HCCL_E_MEMORY: return SIMULATED "HCCL: not enough memory";
    case HCCL_E_NOT_SUPPORT: return SIMULATED "HCCL: not supported";
    case HCCL_E_OPEN_FILE_FAILURE: return SIMULATED "HCCL: cannot open a file in /dev/shm";
    case HCCL_E_TIMEOUT: return SIMULATED "HCCL: a peer did not answer in time";
    default: return SIMULATED "HCCL: error";
    }
}

HcclResult HcclSetConfig(int option, int32_t value)
{
    LOG_CALL();
    (void)option;
    (void)value;
    return HCCL_SUCCESS;
}

/* No optional fields of the communicator's configuration are understood. Asked before every collective: not logged. */
uint32_t HcclGetCommConfigCapability(void)
{
    return 0;
}
