/* Operators by name: the way torch_npu ran them before aclnn, and still does for some. None is implemented; the error
   has to say which one was wanted, and that name is an argument here. */
#include "cannsim.h"

aclError aclopCompileAndExecute(const char *operator_name);
aclError aclopCompileAndExecuteV2(const char *operator_name);

static aclError refuse(const char *function, const char *operator_name)
{
    if (cannsim_log_on())
        cannsim_log("%s STUB %s", function, operator_name);
    cannsim_set_error("operator %s has no implementation: there is no NPU and no CANN in this process", operator_name);
    return ACL_ERROR_API_NOT_SUPPORT;
}

/* The other eleven arguments are not looked at, and C's calling conventions let a function ignore them. */
aclError aclopCompileAndExecute(const char *operator_name)
{
    return refuse(__func__, operator_name);
}

aclError aclopCompileAndExecuteV2(const char *operator_name)
{
    return refuse(__func__, operator_name);
}
