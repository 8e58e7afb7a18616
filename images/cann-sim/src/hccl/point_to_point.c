/* Messages between two ranks: one file in /dev/shm per message.

   A send must not block: on a real device it is queued, and two ranks that both send first and receive afterwards get
   through. So the message is stored under its sequence number, and the receiver waits for it to appear. */
#include "point_to_point.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cannsim.h"
#include "data_type.h"

typedef struct {
    char text[COMM_NAME_MAX_LENGTH + 96];
} Path;

static Path message_path(HcclComm comm, uint32_t from, uint32_t to, unsigned long sequence)
{
    Path path;
    snprintf(path.text, sizeof path.text, "/dev/shm/%s-p2p-%u-%u-%lu", comm->name, from, to, sequence);
    return path;
}

static HcclResult check_peer(HcclComm comm, uint32_t peer, HcclDataType type)
{
    if (!type_bytes(type))
        return HCCL_E_NOT_SUPPORT;
    if (peer < comm->ranks)
        return HCCL_SUCCESS;
    cannsim_set_error("peer %u: the communicator has %u ranks", peer, comm->ranks);
    return HCCL_E_PARA;
}

/* Written under another name first: the receiver sees a message complete or not at all. */
static HcclResult store(const char *path, const void *data, size_t bytes)
{
    char partial[sizeof(Path) + 8];
    snprintf(partial, sizeof partial, "%s.tmp", path);
    FILE *stream = fopen(partial, "wb");
    size_t written = stream && bytes ? fwrite(data, 1, bytes, stream) : 0;
    int closed = stream && fclose(stream) == 0;
    if (closed && written == bytes && rename(partial, path) == 0)
        return HCCL_SUCCESS;
    cannsim_set_error("%s: %s; a message of %zu bytes needs that much room in /dev/shm (--shm-size)", path,
                      strerror(errno), bytes);
    unlink(partial);
    return HCCL_E_OPEN_FILE_FAILURE;
}

static HcclResult load(const char *path, void *data, size_t bytes)
{
    FILE *stream;
    for (double limit = comm_now() + comm_patience(); !(stream = fopen(path, "rb")); comm_nap())
        if (comm_now() > limit) {
            cannsim_set_error("%s: nothing arrived within %.0f s", path, comm_patience());
            return HCCL_E_TIMEOUT;
        }
    size_t read = bytes ? fread(data, 1, bytes, stream) : 0;
    int longer = fgetc(stream) != EOF;
    fclose(stream);
    unlink(path);
    if (read == bytes && !longer)
        return HCCL_SUCCESS;
    cannsim_set_error("%s: the message is %s than the %zu bytes expected", path, longer ? "longer" : "shorter", bytes);
    return HCCL_E_PARA;
}

static HcclResult send_message(HcclComm comm, uint32_t to, const void *buffer, uint64_t count, HcclDataType type)
{
    HcclResult checked = check_peer(comm, to, type);
    if (checked != HCCL_SUCCESS)
        return checked;
    Path path = message_path(comm, comm->rank, to, atomic_fetch_add(&comm->shared->sent[comm->rank][to], 1));
    return store(path.text, buffer, count * type_bytes(type));
}

static HcclResult receive_message(HcclComm comm, uint32_t from, void *buffer, uint64_t count, HcclDataType type)
{
    HcclResult checked = check_peer(comm, from, type);
    if (checked != HCCL_SUCCESS)
        return checked;
    Path path = message_path(comm, from, comm->rank, atomic_fetch_add(&comm->shared->received[from][comm->rank], 1));
    return load(path.text, buffer, count * type_bytes(type));
}

void p2p_discard(HcclComm comm)
{
    for (uint32_t from = 0; from < comm->ranks; from++) {
        unsigned long end = comm->shared->sent[from][comm->rank];
        for (unsigned long next = comm->shared->received[from][comm->rank]; next < end; next++)
            unlink(message_path(comm, from, comm->rank, next).text);
    }
}

HcclResult HcclSend(const void *buffer, uint64_t count, HcclDataType type, uint32_t to, HcclComm comm,
                    aclrtStream stream)
{
    LOG_CALL_WITH("rank=%u to=%u count=%llu type=%d", comm->rank, to, (unsigned long long)count, (int)type);
    (void)stream;
    return send_message(comm, to, buffer, count, type);
}

HcclResult HcclRecv(void *buffer, uint64_t count, HcclDataType type, uint32_t from, HcclComm comm, aclrtStream stream)
{
    LOG_CALL_WITH("rank=%u from=%u count=%llu type=%d", comm->rank, from, (unsigned long long)count, (int)type);
    (void)stream;
    return receive_message(comm, from, buffer, count, type);
}

/* All sends first: they do not block, so no order of the items can deadlock. */
HcclResult HcclBatchSendRecv(HcclSendRecvItem *items, uint32_t count, HcclComm comm, aclrtStream stream)
{
    LOG_CALL_WITH("rank=%u items=%u", comm->rank, count);
    (void)stream;
    HcclResult result = HCCL_SUCCESS;
    for (uint32_t i = 0; i < count && result == HCCL_SUCCESS; i++)
        if (items[i].sendRecvType == HCCL_SEND)
            result = send_message(comm, items[i].remoteRank, items[i].buf, items[i].count, items[i].dataType);
    for (uint32_t i = 0; i < count && result == HCCL_SUCCESS; i++)
        if (items[i].sendRecvType == HCCL_RECV)
            result = receive_message(comm, items[i].remoteRank, items[i].buf, items[i].count, items[i].dataType);
    return result;
}
