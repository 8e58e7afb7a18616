/* Argument objects of the aclnn operators.

   torch_npu makes them for every operator, also for those that only report an error. */
#include "descriptors.h"

#include <stdlib.h>
#include <string.h>

#include "cannsim.h"

size_t acl_type_bytes(aclDataType type)
{
    /* aclDataType of the public ACL headers; 0 where there is no such type or its elements are smaller than a byte */
    static const unsigned char bytes[] = {
        4 /* FLOAT */,  2 /* FLOAT16 */, 1 /* INT8 */,   4 /* INT32 */, 1 /* UINT8 */, 0, 2 /* INT16 */,
        2 /* UINT16 */, 4 /* UINT32 */,  8 /* INT64 */,  8 /* UINT64 */, 8 /* DOUBLE */, 1 /* BOOL */, 0 /* STRING */,
        0,              0,               8 /* COMPLEX64 */, 16 /* COMPLEX128 */, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        2 /* BF16 */,
    };
    return type >= 0 && (size_t)type < sizeof bytes ? bytes[type] : 0;
}

aclTensor *aclCreateTensor(const int64_t *shape, uint64_t rank, aclDataType type, const int64_t *stride,
                           int64_t offset, aclFormat format, const int64_t *storageShape, uint64_t storageRank,
                           void *data)
{
    (void)format; /* torch_npu lays tensors out plainly unless it is told otherwise */
    (void)storageShape;
    (void)storageRank;
    if (rank > MAX_DIMENSIONS) {
        cannsim_set_error("a tensor of %llu dimensions", (unsigned long long)rank);
        return NULL;
    }
    aclTensor *tensor = calloc(1, sizeof *tensor);
    if (!tensor)
        return NULL;
    tensor->type = type;
    tensor->rank = rank;
    tensor->offset = offset;
    tensor->data = data;
    if (rank) {
        memcpy(tensor->shape, shape, rank * sizeof *shape);
        memcpy(tensor->stride, stride, rank * sizeof *stride);
    }
    return tensor;
}

aclError aclDestroyTensor(const aclTensor *tensor)
{
    free((void *)tensor);
    return ACL_SUCCESS;
}

aclIntArray *aclCreateIntArray(const int64_t *values, uint64_t size)
{
    aclIntArray *array = malloc(sizeof *array + size * sizeof *values);
    if (!array)
        return NULL;
    array->size = size;
    array->values = (int64_t *)(array + 1);
    if (size)
        memcpy(array->values, values, size * sizeof *values);
    return array;
}

aclError aclDestroyIntArray(const aclIntArray *array)
{
    free((void *)array);
    return ACL_SUCCESS;
}

aclScalar *aclCreateScalar(void *value, aclDataType type)
{
    size_t bytes = acl_type_bytes(type);
    aclScalar *scalar = calloc(1, sizeof *scalar);
    if (!scalar)
        return NULL;
    scalar->type = type;
    memcpy(scalar->value, value, bytes);
    return scalar;
}

aclError aclDestroyScalar(const aclScalar *scalar)
{
    free((void *)scalar);
    return ACL_SUCCESS;
}
