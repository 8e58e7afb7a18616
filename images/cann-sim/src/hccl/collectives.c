/* Collectives: every rank copies a piece into its slot, waits for the others, and reads what it needs.

   A slot may be written again only after all have read it, hence the second barrier of each round. */
#include <string.h>

#include "cannsim.h"
#include "communicator.h"
#include "data_type.h"

#define TRY(call)                          \
    do {                                   \
        HcclResult result_ = (call);       \
        if (result_ != HCCL_SUCCESS)       \
            return result_;                \
    } while (0)

#define LOG_COLLECTIVE(count, type) \
    LOG_CALL_WITH("ranks=%u rank=%u count=%llu type=%d", comm->ranks, comm->rank, (unsigned long long)(count), (int)(type))

static size_t smaller(size_t left, size_t right)
{
    return left < right ? left : right;
}

/* Whole elements that fit in a slot. */
static size_t elements_per_round(HcclDataType type)
{
    return SLOT_BYTES / type_bytes(type);
}

static HcclResult check_type(HcclDataType type)
{
    return type_bytes(type) ? HCCL_SUCCESS : HCCL_E_NOT_SUPPORT;
}

static HcclResult check_root(HcclComm comm, uint32_t root)
{
    if (root < comm->ranks)
        return HCCL_SUCCESS;
    cannsim_set_error("root %u: the communicator has %u ranks", root, comm->ranks);
    return HCCL_E_PARA;
}

/* Rank 0's piece first, then the others in order: all ranks get bit-identical results. */
static HcclResult combine_slots(HcclComm comm, void *into, size_t count, HcclDataType type, HcclReduceOp op)
{
    memcpy(into, comm_slot(comm, 0), count * type_bytes(type));
    for (uint32_t rank = 1; rank < comm->ranks; rank++)
        TRY(reduce_into(into, comm_slot(comm, rank), count, type, op));
    return HCCL_SUCCESS;
}

/* Reduce `count` elements; ranks for which `wants` is 0 only contribute. */
static HcclResult reduce_rounds(HcclComm comm, const char *send, char *receive, uint64_t count, HcclDataType type,
                                HcclReduceOp op, int wants)
{
    size_t bytes = type_bytes(type);
    for (uint64_t done = 0; done < count;) {
        size_t piece = smaller(count - done, elements_per_round(type));
        memcpy(comm_slot(comm, comm->rank), send + done * bytes, piece * bytes);
        TRY(comm_barrier(comm));
        if (wants)
            TRY(combine_slots(comm, receive + done * bytes, piece, type, op));
        TRY(comm_barrier(comm));
        done += piece;
    }
    return HCCL_SUCCESS;
}

HcclResult HcclAllReduce(const void *send, void *receive, uint64_t count, HcclDataType type, HcclReduceOp op,
                         HcclComm comm, aclrtStream stream)
{
    LOG_COLLECTIVE(count, type);
    (void)stream;
    TRY(check_reduction(type, op));
    return reduce_rounds(comm, send, receive, count, type, op, 1);
}

HcclResult HcclReduce(const void *send, void *receive, uint64_t count, HcclDataType type, HcclReduceOp op,
                      uint32_t root, HcclComm comm, aclrtStream stream)
{
    LOG_COLLECTIVE(count, type);
    (void)stream;
    TRY(check_reduction(type, op));
    TRY(check_root(comm, root));
    return reduce_rounds(comm, send, receive, count, type, op, comm->rank == root);
}

HcclResult HcclReduceScatter(const void *send, void *receive, uint64_t count, HcclDataType type, HcclReduceOp op,
                             HcclComm comm, aclrtStream stream)
{
    LOG_COLLECTIVE(count, type);
    (void)stream;
    TRY(check_reduction(type, op));
    for (uint32_t owner = 0; owner < comm->ranks; owner++) {
        const char *part = (const char *)send + owner * count * type_bytes(type);
        TRY(reduce_rounds(comm, part, receive, count, type, op, comm->rank == owner));
    }
    return HCCL_SUCCESS;
}

HcclResult HcclBroadcast(void *buffer, uint64_t count, HcclDataType type, uint32_t root, HcclComm comm,
                         aclrtStream stream)
{
    LOG_COLLECTIVE(count, type);
    (void)stream;
    TRY(check_type(type));
    TRY(check_root(comm, root));
    size_t total = count * type_bytes(type);
    for (size_t done = 0; done < total;) {
        size_t piece = smaller(total - done, SLOT_BYTES);
        char *here = (char *)buffer + done;
        if (comm->rank == root)
            memcpy(comm_slot(comm, root), here, piece);
        TRY(comm_barrier(comm));
        if (comm->rank != root)
            memcpy(here, comm_slot(comm, root), piece);
        TRY(comm_barrier(comm));
        done += piece;
    }
    return HCCL_SUCCESS;
}

HcclResult HcclAllGather(const void *send, void *receive, uint64_t count, HcclDataType type, HcclComm comm,
                         aclrtStream stream)
{
    LOG_COLLECTIVE(count, type);
    (void)stream;
    TRY(check_type(type));
    size_t total = count * type_bytes(type);
    for (size_t done = 0; done < total;) {
        size_t piece = smaller(total - done, SLOT_BYTES);
        memcpy(comm_slot(comm, comm->rank), (const char *)send + done, piece);
        TRY(comm_barrier(comm));
        for (uint32_t rank = 0; rank < comm->ranks; rank++)
            memcpy((char *)receive + rank * total + done, comm_slot(comm, rank), piece);
        TRY(comm_barrier(comm));
        done += piece;
    }
    return HCCL_SUCCESS;
}

HcclResult HcclScatter(const void *send, void *receive, uint64_t count, HcclDataType type, uint32_t root,
                       HcclComm comm, aclrtStream stream)
{
    LOG_COLLECTIVE(count, type);
    (void)stream;
    TRY(check_type(type));
    TRY(check_root(comm, root));
    size_t total = count * type_bytes(type);
    for (size_t done = 0; done < total;) {
        size_t piece = smaller(total - done, SLOT_BYTES);
        for (uint32_t rank = 0; comm->rank == root && rank < comm->ranks; rank++)
            memcpy(comm_slot(comm, rank), (const char *)send + rank * total + done, piece);
        TRY(comm_barrier(comm));
        memcpy((char *)receive + done, comm_slot(comm, comm->rank), piece);
        TRY(comm_barrier(comm));
        done += piece;
    }
    return HCCL_SUCCESS;
}

/* Bytes and places of what one rank exchanges with each of the others. */
typedef struct {
    const char *base;
    size_t offset[MAX_RANKS];
    size_t length[MAX_RANKS];
} Parts;

static void parts_from_counts(Parts *parts, const void *base, const uint64_t *counts, const uint64_t *offsets,
                              size_t bytes, uint32_t ranks)
{
    parts->base = base;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        parts->length[rank] = counts[rank] * bytes;
        parts->offset[rank] = offsets[rank] * bytes;
    }
}

/* Longest message of a round in which every rank sends to the one `distance` further on. */
static size_t longest(HcclComm comm, uint32_t distance)
{
    size_t most = 0;
    for (uint32_t from = 0; from < comm->ranks; from++) {
        size_t length = comm->shared->lengths[from][(from + distance) % comm->ranks];
        most = length > most ? length : most;
    }
    return most;
}

/* Each rank sends to one peer and receives from another; ranks with less to say still take part in every barrier. */
static HcclResult exchange_round(HcclComm comm, const Parts *send, const Parts *receive, uint32_t distance)
{
    uint32_t to = (comm->rank + distance) % comm->ranks;
    uint32_t from = (comm->rank + comm->ranks - distance) % comm->ranks;
    size_t most = longest(comm, distance);
    for (size_t done = 0; done < most; done += SLOT_BYTES) {
        if (done < send->length[to])
            memcpy(comm_slot(comm, comm->rank), send->base + send->offset[to] + done,
                   smaller(send->length[to] - done, SLOT_BYTES));
        TRY(comm_barrier(comm));
        if (done < receive->length[from])
            memcpy((char *)receive->base + receive->offset[from] + done, comm_slot(comm, from),
                   smaller(receive->length[from] - done, SLOT_BYTES));
        TRY(comm_barrier(comm));
    }
    return HCCL_SUCCESS;
}

/* Every rank checks every pair: all come to the same verdict, and none is left waiting at a barrier. */
static HcclResult check_lengths(HcclComm comm)
{
    for (uint32_t from = 0; from < comm->ranks; from++)
        for (uint32_t to = 0; to < comm->ranks; to++) {
            size_t sent = comm->shared->lengths[from][to], expected = comm->shared->expected[from][to];
            if (sent != expected) {
                cannsim_set_error("all-to-all: rank %u sends %zu bytes, rank %u expects %zu", from, sent, to, expected);
                return HCCL_E_PARA;
            }
        }
    return HCCL_SUCCESS;
}

static HcclResult all_to_all(HcclComm comm, const Parts *send, const Parts *receive)
{
    for (uint32_t peer = 0; peer < comm->ranks; peer++) {
        comm->shared->lengths[comm->rank][peer] = send->length[peer];
        comm->shared->expected[peer][comm->rank] = receive->length[peer];
    }
    TRY(comm_barrier(comm));
    HcclResult agreed = check_lengths(comm);
    for (uint32_t distance = 0; distance < comm->ranks && agreed == HCCL_SUCCESS; distance++)
        TRY(exchange_round(comm, send, receive, distance));
    TRY(comm_barrier(comm)); /* the lengths may be overwritten from here on */
    return agreed;
}

HcclResult HcclAlltoAllV(const void *send, const void *sendCounts, const void *sendOffsets, HcclDataType sendType,
                         const void *receive, const void *receiveCounts, const void *receiveOffsets,
                         HcclDataType receiveType, HcclComm comm, aclrtStream stream)
{
    LOG_CALL_WITH("ranks=%u rank=%u type=%d", comm->ranks, comm->rank, (int)sendType);
    (void)stream;
    TRY(check_type(sendType));
    TRY(check_type(receiveType));
    Parts out, in;
    parts_from_counts(&out, send, sendCounts, sendOffsets, type_bytes(sendType), comm->ranks);
    parts_from_counts(&in, receive, receiveCounts, receiveOffsets, type_bytes(receiveType), comm->ranks);
    return all_to_all(comm, &out, &in);
}

HcclResult HcclAlltoAll(const void *send, uint64_t sendCount, HcclDataType sendType, const void *receive,
                        uint64_t receiveCount, HcclDataType receiveType, HcclComm comm, aclrtStream stream)
{
    LOG_COLLECTIVE(sendCount, sendType);
    (void)stream;
    TRY(check_type(sendType));
    TRY(check_type(receiveType));
    Parts out = {.base = send}, in = {.base = receive};
    for (uint32_t rank = 0; rank < comm->ranks; rank++) {
        out.length[rank] = sendCount * type_bytes(sendType);
        in.length[rank] = receiveCount * type_bytes(receiveType);
        out.offset[rank] = rank * out.length[rank];
        in.offset[rank] = rank * in.length[rank];
    }
    return all_to_all(comm, &out, &in);
}

HcclResult HcclBarrier(HcclComm comm, aclrtStream stream)
{
    LOG_CALL_WITH("ranks=%u rank=%u", comm->ranks, comm->rank);
    (void)stream;
    return comm_barrier(comm);
}
