/* The current device of this thread, and which physical cards this process may use. */
#pragma once

#include <stdint.h>

/* Number of cards after ASCEND_RT_VISIBLE_DEVICES; fixed once a device is in use. */
int cannsim_device_count(void);

/* Logical id of this thread's device; 0 when none was set, which is what the real runtime falls back to. */
int cannsim_device(void);
