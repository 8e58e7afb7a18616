/* Run-time options: remembered where they can be read back, accepted elsewhere. */
#include <stdatomic.h>

#include "ascendcl.h"
#include "cannsim.h"

enum { OPTIONS = 64 };
static _Atomic int64_t values[OPTIONS];

static int known(int option)
{
    return option >= 0 && option < OPTIONS;
}

aclError aclrtSetSysParamOpt(int option, int64_t value)
{
    LOG_CALL();
    if (!known(option))
        return ACL_ERROR_INVALID_PARAM;
    values[option] = value;
    return ACL_SUCCESS;
}

aclError aclrtGetSysParamOpt(int option, int64_t *value)
{
    LOG_CALL();
    if (!known(option))
        return ACL_ERROR_INVALID_PARAM;
    *value = values[option];
    return ACL_SUCCESS;
}

aclError aclrtCtxSetSysParamOpt(int option, int64_t value)
{
    return aclrtSetSysParamOpt(option, value);
}

aclError aclrtSetDeviceSatMode(int mode)
{
    LOG_CALL();
    (void)mode;
    return ACL_SUCCESS;
}

aclError aclrtSetOpWaitTimeout(uint32_t seconds)
{
    LOG_CALL();
    (void)seconds;
    return ACL_SUCCESS;
}

aclError aclrtSetOpExecuteTimeOut(uint32_t seconds)
{
    LOG_CALL();
    (void)seconds;
    return ACL_SUCCESS;
}
