/* Messages between two ranks. */
#pragma once

#include "communicator.h"

/* Remove messages to this rank that nobody received. */
void p2p_discard(HcclComm comm);
