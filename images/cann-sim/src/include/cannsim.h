/* What the simulated libraries share: error texts and the call log. Both live in libascendcl.so. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "acl_errors.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every text that can reach a user starts with this. */
#define SIMULATED "[simulated CANN] "

/* Highest number of cards a host can have, with room to spare (real hosts: 16). */
enum { CANNSIM_MAX_DEVICES = 64 };

/* Is the call log on? CANNSIM_LOG=1 writes to stderr, any other value but 0 is a file to append to. */
int cannsim_log_on(void);

/* One line: "[cannsim PID] TEXT". Tests read these lines as proof that a call reached the device side, so the first
   word is always the name of the function. */
void cannsim_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Remember the error text that aclGetRecentErrMsg() gives this thread. */
void cannsim_set_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What a generated stub does: log the call, record an error text, return "not supported" in the caller's terms. */
int cannsim_stub(const char *name);

#define LOG_CALL() do { if (cannsim_log_on()) cannsim_log("%s", __func__); } while (0)
#define LOG_CALL_WITH(format, ...) \
    do { if (cannsim_log_on()) cannsim_log("%s " format, __func__, __VA_ARGS__); } while (0)

#ifdef __cplusplus
}
#endif
