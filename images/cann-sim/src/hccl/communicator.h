/* A communicator: processes of one machine that share a file in /dev/shm.

   The file holds a header and one slot per rank. A collective moves its data through the slots in pieces, with a
   barrier before a slot is read and one before it is written again. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "hccl.h"

enum {
    MAX_RANKS = 64,
    /* Small on purpose: Docker gives /dev/shm 64 MB by default, and 16 ranks must fit several communicators in it. */
    SLOT_BYTES = 1 << 20,
};

typedef struct {
    atomic_uint joined;     /* ranks that have mapped the file */
    atomic_uint arrived;    /* ranks at the current barrier */
    atomic_uint generation; /* barriers passed */
    atomic_ulong sent[MAX_RANKS][MAX_RANKS];     /* point-to-point messages sent [from][to] */
    atomic_ulong received[MAX_RANKS][MAX_RANKS]; /* and received */
    uint64_t lengths[MAX_RANKS][MAX_RANKS];      /* all-to-all: bytes [from][to], as the sender says */
    uint64_t expected[MAX_RANKS][MAX_RANKS];     /* and as the receiver says */
} Shared;

struct Communicator {
    uint32_t ranks;
    uint32_t rank;
    Shared *shared;
    char *slots;
    char name[COMM_NAME_MAX_LENGTH];
};

/* Slot of a rank, SLOT_BYTES long. */
char *comm_slot(HcclComm comm, uint32_t rank);

/* Wait until every rank is here. HCCL_E_TIMEOUT after HCCL_EXEC_TIMEOUT seconds: a peer has died or hangs. */
HcclResult comm_barrier(HcclComm comm);

/* Sleep between two looks at shared state. */
void comm_nap(void);

/* Seconds on the monotonic clock, and the limit for a wait inside a running program. */
double comm_now(void);
double comm_patience(void);
