/* Compiler options: torch_npu sets some at start and reads one back. There is no compiler to configure. */
#include "cannsim.h"

aclError aclSetCompileopt(int option, const char *value);
size_t aclGetCompileoptSize(int option);
aclError aclGetCompileopt(int option, char *value, size_t length);

aclError aclSetCompileopt(int option, const char *value)
{
    LOG_CALL();
    (void)option;
    (void)value;
    return ACL_SUCCESS;
}

/* Room for the empty string that aclGetCompileopt gives. */
size_t aclGetCompileoptSize(int option)
{
    LOG_CALL();
    (void)option;
    return 1;
}

aclError aclGetCompileopt(int option, char *value, size_t length)
{
    LOG_CALL();
    (void)option;
    if (length)
        value[0] = '\0';
    return ACL_SUCCESS;
}
