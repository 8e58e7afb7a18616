/* Element sizes and element-wise reduction. */
#pragma once

#include "hccl.h"

/* Bytes of an element; 0 for a type that is not supported. */
size_t type_bytes(HcclDataType type);

/* into[i] = op(into[i], from[i]) for `count` elements. */
HcclResult reduce_into(void *into, const void *from, size_t count, HcclDataType type, HcclReduceOp op);

/* Check type and operation once, before any rank starts to exchange data. */
HcclResult check_reduction(HcclDataType type, HcclReduceOp op);
