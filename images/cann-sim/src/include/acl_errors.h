/* Error codes of the public ACL and HCCL interfaces that the stand-in returns. */
#pragma once

typedef int aclError;

enum {
    ACL_SUCCESS = 0,
    ACL_ERROR_INVALID_PARAM = 100000,
    ACL_ERROR_REPEAT_INITIALIZE = 100002,
    ACL_ERROR_RT_PARAM_INVALID = 107000,
    ACL_ERROR_RT_INVALID_DEVICEID = 107001,
    ACL_ERROR_RT_CONTEXT_NULL = 107002,
    ACL_ERROR_API_NOT_SUPPORT = 200001,
    ACL_ERROR_RT_MEMORY_ALLOCATION = 207001,
};

typedef int HcclResult;

enum {
    HCCL_SUCCESS = 0,
    HCCL_E_PARA = 1,
    HCCL_E_PTR = 2,
    HCCL_E_MEMORY = 3,
    HCCL_E_NOT_SUPPORT = 5,
    HCCL_E_OPEN_FILE_FAILURE = 8,
    HCCL_E_TIMEOUT = 9,
};
