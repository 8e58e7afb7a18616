/* Error texts, and what a function without an implementation answers. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ascendcl.h"
#include "cannsim.h"

static _Thread_local char recent[1024];

void cannsim_set_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int head = snprintf(recent, sizeof recent, SIMULATED);
    vsnprintf(recent + head, sizeof recent - (size_t)head, format, arguments);
    va_end(arguments);
}

static const char *without_suffix(const char *name, char *buffer, size_t capacity)
{
    static const char suffix[] = "GetWorkspaceSize";
    size_t length = strlen(name), tail = sizeof suffix - 1;
    if (length <= tail || strcmp(name + length - tail, suffix) != 0)
        return name;
    snprintf(buffer, capacity, "%.*s", (int)(length - tail), name);
    return buffer;
}

int cannsim_stub(const char *name)
{
    char operator_name[128];
    if (cannsim_log_on())
        cannsim_log("%s STUB", name);
    if (strncmp(name, "aclnn", 5) == 0)
        cannsim_set_error("operator %s has no implementation: there is no NPU and no CANN in this process",
                          without_suffix(name, operator_name, sizeof operator_name));
    else
        cannsim_set_error("%s is not implemented: there is no NPU and no CANN in this process", name);
    return strncmp(name, "Hccl", 4) == 0 ? HCCL_E_NOT_SUPPORT : ACL_ERROR_API_NOT_SUPPORT;
}

const char *aclGetRecentErrMsg(void)
{
    return recent[0] ? recent : NULL;
}

/* ACL's own log goes nowhere: its lines come from torch_npu's success paths as well. */
void aclAppLog(int level, const char *function, const char *file, uint32_t line, const char *format, ...)
{
    (void)level;
    (void)function;
    (void)file;
    (void)line;
    (void)format;
}

aclError aclrtPeekAtLastError(int level)
{
    LOG_CALL();
    (void)level;
    return ACL_SUCCESS; /* everything runs at once, so an error was already returned by the call that failed */
}

aclError aclrtGetLastError(int level)
{
    LOG_CALL();
    (void)level;
    return ACL_SUCCESS;
}
