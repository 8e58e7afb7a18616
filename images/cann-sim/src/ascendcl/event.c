/* Events: a time stamp on the host's clock. */
#include <stdlib.h>
#include <time.h>

#include "ascendcl.h"
#include "cannsim.h"

enum { EVENT_RECORDED_STATUS_COMPLETE = 1, EVENT_WAIT_STATUS_COMPLETE = 0 };

typedef struct {
    struct timespec recorded;
} Event;

aclError aclrtCreateEventExWithFlag(void **event, uint32_t flag)
{
    LOG_CALL();
    (void)flag;
    *event = calloc(1, sizeof(Event));
    return *event ? ACL_SUCCESS : ACL_ERROR_RT_MEMORY_ALLOCATION;
}

aclError aclrtCreateEventWithFlag(void **event, uint32_t flag)
{
    return aclrtCreateEventExWithFlag(event, flag);
}

aclError aclrtDestroyEvent(void *event)
{
    LOG_CALL();
    free(event);
    return ACL_SUCCESS;
}

aclError aclrtRecordEvent(void *event, void *stream)
{
    LOG_CALL();
    (void)stream;
    clock_gettime(CLOCK_MONOTONIC, &((Event *)event)->recorded);
    return ACL_SUCCESS;
}

aclError aclrtResetEvent(void *event, void *stream)
{
    LOG_CALL();
    (void)event;
    (void)stream;
    return ACL_SUCCESS;
}

aclError aclrtQueryEventStatus(void *event, int *status)
{
    LOG_CALL();
    (void)event;
    *status = EVENT_RECORDED_STATUS_COMPLETE;
    return ACL_SUCCESS;
}

aclError aclrtQueryEventWaitStatus(void *event, int *status)
{
    LOG_CALL();
    (void)event;
    *status = EVENT_WAIT_STATUS_COMPLETE;
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeEvent(void *event)
{
    LOG_CALL();
    (void)event;
    return ACL_SUCCESS;
}

aclError aclrtStreamWaitEvent(void *stream, void *event)
{
    LOG_CALL();
    (void)stream;
    (void)event;
    return ACL_SUCCESS;
}

aclError aclrtEventElapsedTime(float *milliseconds, void *start, void *end)
{
    LOG_CALL();
    const struct timespec *from = &((Event *)start)->recorded, *to = &((Event *)end)->recorded;
    double seconds = (double)(to->tv_sec - from->tv_sec);
    double nanoseconds = (double)(to->tv_nsec - from->tv_nsec);
    *milliseconds = (float)(seconds * 1e3 + nanoseconds / 1e6);
    return ACL_SUCCESS;
}
