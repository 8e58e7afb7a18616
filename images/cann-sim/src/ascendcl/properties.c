/* What the card and the toolkit say about themselves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ascendcl.h"
#include "cannsim.h"

#ifndef CANNSIM_DEFAULT_SOC /* the image's build passes the manifest's chip */
#define CANNSIM_DEFAULT_SOC "simulated"
#endif

enum { VERSION_CAPACITY = 128, AI_CORES = 20, UTILIZATION_FIELDS = 4 };

const char *aclrtGetSocName(void)
{
    LOG_CALL();
    const char *name = getenv("CANNSIM_SOC");
    return name && *name ? name : CANNSIM_DEFAULT_SOC;
}

/* All attributes that torch_npu asks for (INF/NAN mode, BF16, JIT compile) are supported by the simulated chip. */
aclError aclGetCannAttribute(int attribute, int32_t *value)
{
    LOG_CALL();
    (void)attribute;
    *value = 1;
    return ACL_SUCCESS;
}

aclError aclGetDeviceCapability(uint32_t device, int information, int64_t *value)
{
    LOG_CALL();
    (void)device;
    (void)information;
    *value = AI_CORES;
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceInfo(uint32_t device, int attribute, int64_t *value)
{
    return aclGetDeviceCapability(device, attribute, value);
}

aclError aclrtGetDeviceUtilizationRate(int32_t device, int32_t *rates)
{
    LOG_CALL();
    (void)device;
    memset(rates, 0, UTILIZATION_FIELDS * sizeof *rates);
    return ACL_SUCCESS;
}

aclError aclrtDeviceGetBareTgid(int32_t *pid)
{
    LOG_CALL();
    *pid = (int32_t)getpid();
    return ACL_SUCCESS;
}

/* The release the toolkit folder carries: one place to say it, and none in the code. */
static void read_version(char *version)
{
    const char *home = getenv("ASCEND_HOME_PATH");
    char path[4096], line[256];
    snprintf(version, VERSION_CAPACITY, "simulated");
    snprintf(path, sizeof path, "%s/runtime/version.info", home ? home : "");
    FILE *stream = fopen(path, "r");
    if (!stream)
        return;
    while (fgets(line, sizeof line, stream))
        if (sscanf(line, "Version=%127[^\r\n]", version) == 1)
            break;
    fclose(stream);
}

aclError aclsysGetCANNVersion(int package, char *version)
{
    LOG_CALL();
    (void)package;
    memset(version, 0, VERSION_CAPACITY);
    read_version(version);
    return ACL_SUCCESS;
}

aclError aclsysGetVersionStr(char *package, char *version)
{
    LOG_CALL();
    (void)package;
    read_version(version);
    return ACL_SUCCESS;
}
