/* Devices: how many, which one is current. */
#include <ctype.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "ascendcl.h"
#include "cannsim.h"
#include "device.h"

extern int drvGetDevNum(uint32_t *count); /* libascend_hal.so */

static atomic_int initialized;
static atomic_int active[CANNSIM_MAX_DEVICES];
static _Thread_local int current = -1;

/* The rules torch_npu states for the real runtime: unset means all; else a comma-separated list of ids that ends at the
   first entry that is not a number or not installed. An id that does not ascend makes the whole list void. */
static int count_listed(const char *list, int installed)
{
    int count = 0;
    for (long previous = -1; isdigit((unsigned char)*list); list++) {
        char *end;
        long id = strtol(list, &end, 10);
        if (id <= previous)
            return 0;
        if (id >= installed)
            return count;
        previous = id;
        ++count;
        list = end;
        if (*list != ',')
            return count;
    }
    return count;
}

static int count_visible(void)
{
    uint32_t installed = 0;
    drvGetDevNum(&installed);
    if (installed > CANNSIM_MAX_DEVICES)
        installed = CANNSIM_MAX_DEVICES;
    const char *list = getenv("ASCEND_RT_VISIBLE_DEVICES");
    return list ? count_listed(list, (int)installed) : (int)installed;
}

/* Counted anew until a device is in use: a program may set ASCEND_RT_VISIBLE_DEVICES after it has asked, and a forked
   child may before its first use. */
static atomic_int fixed_count = -1;

int cannsim_device_count(void)
{
    return fixed_count >= 0 ? fixed_count : count_visible();
}

int cannsim_device(void)
{
    return current < 0 ? 0 : current;
}

static int exists(int32_t device)
{
    return device >= 0 && device < cannsim_device_count();
}

static aclError no_such_device(const char *function, int32_t device)
{
    cannsim_set_error("%s(%d): %d device(s) visible", function, device, cannsim_device_count());
    return ACL_ERROR_RT_INVALID_DEVICEID;
}

aclError aclInit(const char *config)
{
    LOG_CALL();
    (void)config;
    return atomic_exchange(&initialized, 1) ? ACL_ERROR_REPEAT_INITIALIZE : ACL_SUCCESS;
}

aclError aclFinalize(void)
{
    LOG_CALL();
    initialized = 0;
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceCount(uint32_t *count)
{
    LOG_CALL();
    *count = (uint32_t)cannsim_device_count();
    return ACL_SUCCESS;
}

aclError aclrtSetDevice(int32_t device)
{
    LOG_CALL_WITH("device=%d", device);
    if (!exists(device))
        return no_such_device(__func__, device);
    fixed_count = cannsim_device_count();
    current = device;
    active[device] = 1;
    return ACL_SUCCESS;
}

aclError aclrtGetDevice(int32_t *device)
{
    LOG_CALL();
    if (current < 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    *device = current;
    return ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t device)
{
    LOG_CALL_WITH("device=%d", device);
    if (!exists(device))
        return no_such_device(__func__, device);
    active[device] = 0;
    if (current == device)
        current = -1;
    return ACL_SUCCESS;
}

aclError aclrtGetPrimaryCtxState(int32_t device, uint32_t *flags, int32_t *is_active)
{
    LOG_CALL();
    if (!exists(device))
        return no_such_device(__func__, device);
    if (flags)
        *flags = 0;
    if (is_active)
        *is_active = active[device];
    return ACL_SUCCESS;
}

/* A context is nothing but its device here; the handle must only be non-NULL and tell the device. */
static const uintptr_t CONTEXT_BASE = 0x1000;

aclError aclrtGetCurrentContext(void **context)
{
    LOG_CALL();
    if (current < 0)
        return ACL_ERROR_RT_CONTEXT_NULL;
    *context = (void *)(CONTEXT_BASE + (uintptr_t)current);
    return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(void *context)
{
    LOG_CALL();
    int32_t device = (int32_t)((uintptr_t)context - CONTEXT_BASE);
    if (!exists(device))
        return no_such_device(__func__, device);
    current = device;
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeDevice(void)
{
    LOG_CALL();
    return ACL_SUCCESS; /* nothing is ever pending */
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t milliseconds)
{
    LOG_CALL();
    (void)milliseconds;
    return ACL_SUCCESS;
}

aclError aclrtDeviceCanAccessPeer(int32_t *can, int32_t device, int32_t peer)
{
    LOG_CALL();
    *can = device != peer;
    return ACL_SUCCESS;
}

aclError aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags)
{
    LOG_CALL();
    (void)peer;
    (void)flags;
    return ACL_SUCCESS;
}
