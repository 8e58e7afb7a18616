/* Streams: handles with an id. Work runs in the calling thread before the call returns. */
#include <stdatomic.h>
#include <stdlib.h>

#include "ascendcl.h"
#include "cannsim.h"
#include "device.h"

typedef struct {
    int device;
    int32_t id;
} Stream;

enum { STREAM_STATUS_COMPLETE = 0 };

aclError aclrtCreateStream(void **stream)
{
    static atomic_int next_id;
    LOG_CALL();
    Stream *created = malloc(sizeof *created);
    if (!created)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    *created = (Stream){cannsim_device(), atomic_fetch_add(&next_id, 1)};
    *stream = created;
    return ACL_SUCCESS;
}

aclError aclrtCreateStreamWithConfig(void **stream, uint32_t priority, uint32_t flags)
{
    (void)priority;
    (void)flags;
    return aclrtCreateStream(stream);
}

aclError aclrtDestroyStream(void *stream)
{
    LOG_CALL();
    free(stream);
    return ACL_SUCCESS;
}

aclError aclrtDestroyStreamForce(void *stream)
{
    return aclrtDestroyStream(stream);
}

aclError aclrtStreamGetId(void *stream, int32_t *id)
{
    LOG_CALL();
    *id = stream ? ((Stream *)stream)->id : 0;
    return ACL_SUCCESS;
}

aclError aclrtStreamQuery(void *stream, int *status)
{
    LOG_CALL();
    (void)stream;
    *status = STREAM_STATUS_COMPLETE;
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeStream(void *stream)
{
    LOG_CALL();
    (void)stream;
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeStreamWithTimeout(void *stream, int32_t milliseconds)
{
    (void)milliseconds;
    return aclrtSynchronizeStream(stream);
}

/* A host function that was put on a stream runs now: all work before it has finished. */
aclError aclrtLaunchCallback(void (*function)(void *), void *argument, int blocking, void *stream)
{
    LOG_CALL();
    (void)blocking;
    (void)stream;
    function(argument);
    return ACL_SUCCESS;
}

aclError aclrtSubscribeReport(uint64_t thread, void *stream)
{
    LOG_CALL();
    (void)thread;
    (void)stream;
    return ACL_SUCCESS;
}

aclError aclrtUnSubscribeReport(uint64_t thread, void *stream)
{
    LOG_CALL();
    (void)thread;
    (void)stream;
    return ACL_SUCCESS;
}

/* Settings that change nothing where nothing runs concurrently. */

aclError aclrtSetStreamFailureMode(void *stream, uint64_t mode)
{
    LOG_CALL();
    (void)stream;
    (void)mode;
    return ACL_SUCCESS;
}

aclError aclrtSetStreamAttribute(void *stream, int attribute, void *value)
{
    LOG_CALL();
    (void)stream;
    (void)attribute;
    (void)value;
    return ACL_SUCCESS;
}

aclError aclrtSetStreamOverflowSwitch(void *stream, uint32_t flag)
{
    LOG_CALL();
    (void)stream;
    (void)flag;
    return ACL_SUCCESS;
}
