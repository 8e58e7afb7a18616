/* Argument objects of the aclnn operators: copies of what the caller described. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "acl_errors.h"

typedef int aclDataType;
typedef int aclFormat;
typedef void *aclrtStream;

enum { MAX_DIMENSIONS = 64 };

typedef struct {
    aclDataType type;
    uint64_t rank;
    int64_t shape[MAX_DIMENSIONS];
    int64_t stride[MAX_DIMENSIONS]; /* in elements */
    int64_t offset;                 /* in elements */
    char *data;
} aclTensor;

typedef struct {
    uint64_t size;
    int64_t *values;
} aclIntArray;

typedef struct {
    aclDataType type;
    unsigned char value[16];
} aclScalar;

/* An operator that has been prepared and waits to run. */
typedef struct aclOpExecutor aclOpExecutor;

aclTensor *aclCreateTensor(const int64_t *shape, uint64_t rank, aclDataType type, const int64_t *stride,
                           int64_t offset, aclFormat format, const int64_t *storageShape, uint64_t storageRank,
                           void *data);
aclError aclDestroyTensor(const aclTensor *tensor);
aclIntArray *aclCreateIntArray(const int64_t *values, uint64_t size);
aclError aclDestroyIntArray(const aclIntArray *array);
aclScalar *aclCreateScalar(void *value, aclDataType type);
aclError aclDestroyScalar(const aclScalar *scalar);

/* Bytes of an element; 0 for a type that is not supported. */
size_t acl_type_bytes(aclDataType type);
