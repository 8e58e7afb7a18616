/* Element sizes and element-wise reduction. */
#include "data_type.h"

#include <string.h>

#include "cannsim.h"

size_t type_bytes(HcclDataType type)
{
    static const size_t bytes[] = {
        [HCCL_DATA_TYPE_INT8] = 1,   [HCCL_DATA_TYPE_INT16] = 2,  [HCCL_DATA_TYPE_INT32] = 4,
        [HCCL_DATA_TYPE_FP16] = 2,   [HCCL_DATA_TYPE_FP32] = 4,   [HCCL_DATA_TYPE_INT64] = 8,
        [HCCL_DATA_TYPE_UINT64] = 8, [HCCL_DATA_TYPE_UINT8] = 1,  [HCCL_DATA_TYPE_UINT16] = 2,
        [HCCL_DATA_TYPE_UINT32] = 4, [HCCL_DATA_TYPE_FP64] = 8,   [HCCL_DATA_TYPE_BFP16] = 2,
    };
    if ((size_t)type < sizeof bytes / sizeof *bytes)
        return bytes[type];
    cannsim_set_error("HCCL data type %d is not supported", (int)type);
    return 0;
}

HcclResult check_reduction(HcclDataType type, HcclReduceOp op)
{
    if (!type_bytes(type))
        return HCCL_E_NOT_SUPPORT;
    if ((unsigned)op > HCCL_REDUCE_MIN) {
        cannsim_set_error("HCCL reduction %d is not supported", (int)op);
        return HCCL_E_NOT_SUPPORT;
    }
    return HCCL_SUCCESS;
}

#define COMBINE(x, y, op)                \
    ((op) == HCCL_REDUCE_SUM    ? (x) + (y) \
     : (op) == HCCL_REDUCE_PROD ? (x) * (y) \
     : (op) == HCCL_REDUCE_MAX  ? ((x) > (y) ? (x) : (y)) \
                                : ((x) < (y) ? (x) : (y)))

/* One loop per C type. */
#define DEFINE_REDUCE(name, T)                                                             \
    static void reduce_##name(void *into, const void *from, size_t count, HcclReduceOp op) \
    {                                                                                      \
        T *left = into;                                                                    \
        const T *right = from;                                                             \
        for (size_t i = 0; i < count; i++)                                                 \
            left[i] = (T)COMBINE(left[i], right[i], op);                                   \
    }

DEFINE_REDUCE(int8, int8_t)
DEFINE_REDUCE(int16, int16_t)
DEFINE_REDUCE(int32, int32_t)
DEFINE_REDUCE(int64, int64_t)
DEFINE_REDUCE(uint8, uint8_t)
DEFINE_REDUCE(uint16, uint16_t)
DEFINE_REDUCE(uint32, uint32_t)
DEFINE_REDUCE(uint64, uint64_t)
DEFINE_REDUCE(fp16, _Float16)
DEFINE_REDUCE(fp32, float)
DEFINE_REDUCE(fp64, double)

static float from_bfloat16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Round to nearest, ties to even; a NaN stays a NaN. */
static uint16_t to_bfloat16(float value)
{
    uint32_t wide;
    memcpy(&wide, &value, sizeof wide);
    if ((wide & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(wide >> 16 | 0x40u);
    return (uint16_t)((wide + 0x7fffu + (wide >> 16 & 1u)) >> 16);
}

static void reduce_bfloat16(void *into, const void *from, size_t count, HcclReduceOp op)
{
    uint16_t *left = into;
    const uint16_t *right = from;
    for (size_t i = 0; i < count; i++) {
        float x = from_bfloat16(left[i]), y = from_bfloat16(right[i]);
        left[i] = to_bfloat16(COMBINE(x, y, op));
    }
}

HcclResult reduce_into(void *into, const void *from, size_t count, HcclDataType type, HcclReduceOp op)
{
    switch (type) {
    case HCCL_DATA_TYPE_INT8: reduce_int8(into, from, count, op); break;
    case HCCL_DATA_TYPE_INT16: reduce_int16(into, from, count, op); break;
    case HCCL_DATA_TYPE_INT32: reduce_int32(into, from, count, op); break;
    case HCCL_DATA_TYPE_INT64: reduce_int64(into, from, count, op); break;
    case HCCL_DATA_TYPE_UINT8: reduce_uint8(into, from, count, op); break;
    case HCCL_DATA_TYPE_UINT16: reduce_uint16(into, from, count, op); break;
    case HCCL_DATA_TYPE_UINT32: reduce_uint32(into, from, count, op); break;
    case HCCL_DATA_TYPE_UINT64: reduce_uint64(into, from, count, op); break;
    case HCCL_DATA_TYPE_FP16: reduce_fp16(into, from, count, op); break;
    case HCCL_DATA_TYPE_FP32: reduce_fp32(into, from, count, op); break;
    case HCCL_DATA_TYPE_FP64: reduce_fp64(into, from, count, op); break;
    case HCCL_DATA_TYPE_BFP16: reduce_bfloat16(into, from, count, op); break;
    default: return HCCL_E_NOT_SUPPORT;
    }
    return HCCL_SUCCESS;
}
