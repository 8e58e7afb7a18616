/* Dump and profiling hooks: torch_npu calls them on every run; nothing is dumped or profiled here. */
#include <time.h>

#include "ascendcl.h"
#include "cannsim.h"

aclError aclmdlInitDump(void)
{
    LOG_CALL();
    return ACL_SUCCESS;
}

aclError aclmdlSetDump(const char *config)
{
    LOG_CALL();
    (void)config;
    return ACL_SUCCESS;
}

aclError aclmdlFinalizeDump(void)
{
    LOG_CALL();
    return ACL_SUCCESS;
}

uint64_t MsprofSysCycleTime(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int32_t MsprofRegisterCallback(uint32_t module, void *callback)
{
    LOG_CALL();
    (void)module;
    (void)callback;
    return 0;
}

/* FNV-1a: the profiler needs equal ids for equal strings. */
uint64_t MsprofGetHashId(const char *text, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash;
}

int32_t MsprofReportApi(uint32_t aging, const void *api)
{
    (void)aging;
    (void)api;
    return 0;
}

int32_t MsprofReportCompactInfo(uint32_t aging, const void *data, uint32_t length)
{
    (void)aging;
    (void)data;
    (void)length;
    return 0;
}

int32_t MsprofReportAdditionalInfo(uint32_t aging, const void *data, uint32_t length)
{
    (void)aging;
    (void)data;
    (void)length;
    return 0;
}
