/* The part of HCCL's interface that is implemented; signatures follow the public HCCL reference. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "acl_errors.h"

typedef enum {
    HCCL_DATA_TYPE_INT8 = 0,
    HCCL_DATA_TYPE_INT16 = 1,
    HCCL_DATA_TYPE_INT32 = 2,
    HCCL_DATA_TYPE_FP16 = 3,
    HCCL_DATA_TYPE_FP32 = 4,
    HCCL_DATA_TYPE_INT64 = 5,
    HCCL_DATA_TYPE_UINT64 = 6,
    HCCL_DATA_TYPE_UINT8 = 7,
    HCCL_DATA_TYPE_UINT16 = 8,
    HCCL_DATA_TYPE_UINT32 = 9,
    HCCL_DATA_TYPE_FP64 = 10,
    HCCL_DATA_TYPE_BFP16 = 11,
} HcclDataType;

typedef enum { HCCL_REDUCE_SUM = 0, HCCL_REDUCE_PROD = 1, HCCL_REDUCE_MAX = 2, HCCL_REDUCE_MIN = 3 } HcclReduceOp;

enum { HCCL_ROOT_INFO_BYTES = 4108, COMM_NAME_MAX_LENGTH = 128 };

typedef struct {
    char internal[HCCL_ROOT_INFO_BYTES];
} HcclRootInfo;

typedef struct Communicator *HcclComm;
typedef void *aclrtStream;

typedef enum { HCCL_SEND = 0, HCCL_RECV = 1 } HcclSendRecvType;

typedef struct {
    HcclSendRecvType sendRecvType;
    void *buf;
    uint64_t count;
    HcclDataType dataType;
    uint32_t remoteRank;
} HcclSendRecvItem;

HcclResult HcclGetRootInfo(HcclRootInfo *info);
HcclResult HcclCommInitRootInfo(uint32_t ranks, const HcclRootInfo *info, uint32_t rank, HcclComm *comm);
HcclResult HcclCommInitRootInfoConfig(uint32_t ranks, const HcclRootInfo *info, uint32_t rank, const void *config,
                                      HcclComm *comm);
HcclResult HcclCommDestroy(HcclComm comm);
HcclResult HcclGetCommName(HcclComm comm, char *name);
HcclResult HcclGetRankId(HcclComm comm, uint32_t *rank);
HcclResult HcclGetRankSize(HcclComm comm, uint32_t *ranks);
HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult *error);
const char *HcclGetErrorString(HcclResult code);
HcclResult HcclSetConfig(int option, int32_t value);
uint32_t HcclGetCommConfigCapability(void);

HcclResult HcclAllReduce(const void *send, void *receive, uint64_t count, HcclDataType type, HcclReduceOp op,
                         HcclComm comm, aclrtStream stream);
HcclResult HcclReduce(const void *send, void *receive, uint64_t count, HcclDataType type, HcclReduceOp op,
                      uint32_t root, HcclComm comm, aclrtStream stream);
HcclResult HcclReduceScatter(const void *send, void *receive, uint64_t count, HcclDataType type, HcclReduceOp op,
                             HcclComm comm, aclrtStream stream);
HcclResult HcclBroadcast(void *buffer, uint64_t count, HcclDataType type, uint32_t root, HcclComm comm,
                         aclrtStream stream);
HcclResult HcclAllGather(const void *send, void *receive, uint64_t count, HcclDataType type, HcclComm comm,
                         aclrtStream stream);
HcclResult HcclScatter(const void *send, void *receive, uint64_t count, HcclDataType type, uint32_t root,
                       HcclComm comm, aclrtStream stream);
HcclResult HcclAlltoAll(const void *send, uint64_t sendCount, HcclDataType sendType, const void *receive,
                        uint64_t receiveCount, HcclDataType receiveType, HcclComm comm, aclrtStream stream);
HcclResult HcclAlltoAllV(const void *send, const void *sendCounts, const void *sendOffsets, HcclDataType sendType,
                         const void *receive, const void *receiveCounts, const void *receiveOffsets,
                         HcclDataType receiveType, HcclComm comm, aclrtStream stream);
HcclResult HcclBarrier(HcclComm comm, aclrtStream stream);

HcclResult HcclSend(const void *buffer, uint64_t count, HcclDataType type, uint32_t to, HcclComm comm,
                    aclrtStream stream);
HcclResult HcclRecv(void *buffer, uint64_t count, HcclDataType type, uint32_t from, HcclComm comm, aclrtStream stream);
HcclResult HcclBatchSendRecv(HcclSendRecvItem *items, uint32_t count, HcclComm comm, aclrtStream stream);
