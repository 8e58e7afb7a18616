/* Device memory is host memory, counted per device so that running out of it looks like the real thing. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ascendcl.h"
#include "cannsim.h"
#include "device.h"

enum { DEVICE_ALIGNMENT = 512, HOST_ALIGNMENT = 64, DEFAULT_HBM_MB = 65536 };

/* Each block remembers its device: it may be freed while another one is current. */
typedef struct {
    int device;
    size_t size;
} Header;

static atomic_size_t used[CANNSIM_MAX_DEVICES];

/* CANNSIM_HBM_MB lets a test meet "out of memory" with a small tensor. */
static size_t capacity(void)
{
    const char *megabytes = getenv("CANNSIM_HBM_MB");
    long value = megabytes ? atol(megabytes) : DEFAULT_HBM_MB;
    return (size_t)(value > 0 ? value : 0) << 20;
}

static size_t rounded(size_t size, size_t alignment)
{
    return (size / alignment + 1) * alignment; /* real blocks have a tail to read past the end as well */
}

static Header *header_of(void *block)
{
    return (Header *)(void *)((char *)block - DEVICE_ALIGNMENT);
}

static aclError out_of_memory(const char *what, size_t size)
{
    cannsim_set_error("out of %s memory: %zu bytes asked for", what, size);
    return ACL_ERROR_RT_MEMORY_ALLOCATION;
}

static aclError allocate(void **block, size_t size)
{
    int device = cannsim_device();
    size_t wanted = rounded(size, DEVICE_ALIGNMENT);
    size_t before = atomic_fetch_add(&used[device], wanted);
    char *raw = before + wanted <= capacity() ? aligned_alloc(DEVICE_ALIGNMENT, wanted + DEVICE_ALIGNMENT) : NULL;
    if (!raw) {
        atomic_fetch_sub(&used[device], wanted);
        return out_of_memory("device", size);
    }
    *block = raw + DEVICE_ALIGNMENT;
    *header_of(*block) = (Header){device, wanted};
    return ACL_SUCCESS;
}

aclError aclrtMalloc(void **block, size_t size, int policy)
{
    LOG_CALL_WITH("device=%d bytes=%zu", cannsim_device(), size);
    (void)policy;
    return allocate(block, size);
}

aclError aclrtMallocAlign32(void **block, size_t size, int policy)
{
    LOG_CALL_WITH("device=%d bytes=%zu", cannsim_device(), size);
    (void)policy;
    return allocate(block, size);
}

aclError aclrtFree(void *block)
{
    LOG_CALL();
    if (!block)
        return ACL_SUCCESS;
    Header *header = header_of(block);
    atomic_fetch_sub(&used[header->device], header->size);
    free(header);
    return ACL_SUCCESS;
}

aclError aclrtMallocHost(void **block, size_t size)
{
    LOG_CALL_WITH("bytes=%zu", size);
    *block = aligned_alloc(HOST_ALIGNMENT, rounded(size, HOST_ALIGNMENT));
    return *block ? ACL_SUCCESS : out_of_memory("host", size);
}

aclError aclrtMallocHostWithCfg(void **block, size_t size, void *config)
{
    (void)config;
    return aclrtMallocHost(block, size);
}

aclError aclrtFreeHost(void *block)
{
    LOG_CALL();
    free(block);
    return ACL_SUCCESS;
}

aclError aclrtGetMemInfo(int attribute, size_t *free_bytes, size_t *total_bytes)
{
    LOG_CALL();
    (void)attribute;
    size_t taken = used[cannsim_device()];
    *total_bytes = capacity();
    *free_bytes = taken < *total_bytes ? *total_bytes - taken : 0;
    return ACL_SUCCESS;
}

static aclError copy(void *target, size_t room, const void *source, size_t count)
{
    if (count > room) {
        cannsim_set_error("copy of %zu bytes into %zu", count, room);
        return ACL_ERROR_RT_PARAM_INVALID;
    }
    if (count)
        memmove(target, source, count);
    return ACL_SUCCESS;
}

aclError aclrtMemcpy(void *target, size_t room, const void *source, size_t count, int kind)
{
    LOG_CALL_WITH("bytes=%zu kind=%d", count, kind);
    return copy(target, room, source, count);
}

/* At once, like every other asynchronous call here: no test may lean on overlap. */
aclError aclrtMemcpyAsync(void *target, size_t room, const void *source, size_t count, int kind, void *stream)
{
    LOG_CALL_WITH("bytes=%zu kind=%d", count, kind);
    (void)stream;
    return copy(target, room, source, count);
}

aclError aclrtMemcpyAsyncWithCondition(void *target, size_t room, const void *source, size_t count, int kind,
                                       void *stream)
{
    return aclrtMemcpyAsync(target, room, source, count, kind, stream);
}

aclError aclrtMemset(void *target, size_t room, int32_t value, size_t count)
{
    LOG_CALL_WITH("bytes=%zu", count);
    if (count > room) {
        cannsim_set_error("fill of %zu bytes in %zu", count, room);
        return ACL_ERROR_RT_PARAM_INVALID;
    }
    memset(target, value, count);
    return ACL_SUCCESS;
}

aclError aclrtMemsetAsync(void *target, size_t room, int32_t value, size_t count, void *stream)
{
    (void)stream;
    return aclrtMemset(target, room, value, count);
}
