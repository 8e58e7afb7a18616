/* Prototypes of the ACL run-time functions that are implemented here; signatures follow the public ACL reference.
   Handles (stream, event, context) are opaque to callers, so plain pointers stand for them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "acl_errors.h"

/* error.c */
const char *aclGetRecentErrMsg(void);
void aclAppLog(int level, const char *function, const char *file, uint32_t line, const char *format, ...);
aclError aclrtPeekAtLastError(int level);
aclError aclrtGetLastError(int level);

/* device.c */
aclError aclInit(const char *config);
aclError aclFinalize(void);
aclError aclrtGetDeviceCount(uint32_t *count);
aclError aclrtSetDevice(int32_t device);
aclError aclrtGetDevice(int32_t *device);
aclError aclrtResetDevice(int32_t device);
aclError aclrtGetPrimaryCtxState(int32_t device, uint32_t *flags, int32_t *is_active);
aclError aclrtGetCurrentContext(void **context);
aclError aclrtSetCurrentContext(void *context);
aclError aclrtSynchronizeDevice(void);
aclError aclrtSynchronizeDeviceWithTimeout(int32_t milliseconds);
aclError aclrtDeviceCanAccessPeer(int32_t *can, int32_t device, int32_t peer);
aclError aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags);

/* memory.c */
aclError aclrtMalloc(void **block, size_t size, int policy);
aclError aclrtMallocAlign32(void **block, size_t size, int policy);
aclError aclrtFree(void *block);
aclError aclrtMallocHost(void **block, size_t size);
aclError aclrtMallocHostWithCfg(void **block, size_t size, void *config);
aclError aclrtFreeHost(void *block);
aclError aclrtGetMemInfo(int attribute, size_t *free_bytes, size_t *total_bytes);
aclError aclrtMemcpy(void *target, size_t room, const void *source, size_t count, int kind);
aclError aclrtMemcpyAsync(void *target, size_t room, const void *source, size_t count, int kind, void *stream);
aclError aclrtMemcpyAsyncWithCondition(void *target, size_t room, const void *source, size_t count, int kind,
                                       void *stream);
aclError aclrtMemset(void *target, size_t room, int32_t value, size_t count);
aclError aclrtMemsetAsync(void *target, size_t room, int32_t value, size_t count, void *stream);

/* stream.c */
aclError aclrtCreateStream(void **stream);
aclError aclrtCreateStreamWithConfig(void **stream, uint32_t priority, uint32_t flags);
aclError aclrtDestroyStream(void *stream);
aclError aclrtDestroyStreamForce(void *stream);
aclError aclrtStreamGetId(void *stream, int32_t *id);
aclError aclrtStreamQuery(void *stream, int *status);
aclError aclrtSynchronizeStream(void *stream);
aclError aclrtSynchronizeStreamWithTimeout(void *stream, int32_t milliseconds);
aclError aclrtLaunchCallback(void (*function)(void *), void *argument, int blocking, void *stream);
aclError aclrtSubscribeReport(uint64_t thread, void *stream);
aclError aclrtUnSubscribeReport(uint64_t thread, void *stream);
aclError aclrtSetStreamFailureMode(void *stream, uint64_t mode);
aclError aclrtSetStreamAttribute(void *stream, int attribute, void *value);
aclError aclrtSetStreamOverflowSwitch(void *stream, uint32_t flag);

/* event.c */
aclError aclrtCreateEventExWithFlag(void **event, uint32_t flag);
aclError aclrtCreateEventWithFlag(void **event, uint32_t flag);
aclError aclrtDestroyEvent(void *event);
aclError aclrtRecordEvent(void *event, void *stream);
aclError aclrtResetEvent(void *event, void *stream);
aclError aclrtQueryEventStatus(void *event, int *status);
aclError aclrtQueryEventWaitStatus(void *event, int *status);
aclError aclrtSynchronizeEvent(void *event);
aclError aclrtStreamWaitEvent(void *stream, void *event);
aclError aclrtEventElapsedTime(float *milliseconds, void *start, void *end);

/* properties.c */
const char *aclrtGetSocName(void);
aclError aclGetCannAttribute(int attribute, int32_t *value);
aclError aclGetDeviceCapability(uint32_t device, int information, int64_t *value);
aclError aclrtGetDeviceInfo(uint32_t device, int attribute, int64_t *value);
aclError aclrtGetDeviceUtilizationRate(int32_t device, int32_t *rates);
aclError aclrtDeviceGetBareTgid(int32_t *pid);
aclError aclsysGetCANNVersion(int package, char *version);
aclError aclsysGetVersionStr(char *package, char *version);

/* options.c */
aclError aclrtSetSysParamOpt(int option, int64_t value);
aclError aclrtGetSysParamOpt(int option, int64_t *value);
aclError aclrtCtxSetSysParamOpt(int option, int64_t value);
aclError aclrtSetDeviceSatMode(int mode);
aclError aclrtSetOpWaitTimeout(uint32_t seconds);
aclError aclrtSetOpExecuteTimeOut(uint32_t seconds);

/* tracing.c */
aclError aclmdlInitDump(void);
aclError aclmdlSetDump(const char *config);
aclError aclmdlFinalizeDump(void);
uint64_t MsprofSysCycleTime(void);
int32_t MsprofRegisterCallback(uint32_t module, void *callback);
uint64_t MsprofGetHashId(const char *text, size_t length);
int32_t MsprofReportApi(uint32_t aging, const void *api);
int32_t MsprofReportCompactInfo(uint32_t aging, const void *data, uint32_t length);
int32_t MsprofReportAdditionalInfo(uint32_t aging, const void *data, uint32_t length);
