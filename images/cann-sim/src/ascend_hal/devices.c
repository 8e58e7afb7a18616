/* libascend_hal.so, the part of CANN that belongs to the host's driver: how many cards are there?

   The answer is the number of card nodes this process may open, as on a real host where a container sees the nodes
   that were passed to it and a user without the right group sees none. */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DRV_ERROR_NONE = 0, DRV_ERROR_INVALID_VALUE = 3, DRV_ERROR_NOT_SUPPORT = 0xfffe };

/* The version that torch_npu 2.6 to 2.10 accept; the real one is the same for all drivers of a generation. */
enum { HAL_API_VERSION = 0x072316 };

int drvGetDevNum(uint32_t *count);
int halGetAPIVersion(int *version);
int halGetDeviceInfo(uint32_t device, int32_t module, int32_t info, int64_t *value);

static const char *device_folder(void)
{
    const char *folder = getenv("CANNSIM_DEV_DIR"); /* lets tests run without root */
    return folder && *folder ? folder : "/dev";
}

/* davinci0, davinci15; not davinci_manager, not davinci0.bak */
static int is_card_node(const char *name)
{
    static const char prefix[] = "davinci";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return 0;
    const char *number = name + sizeof prefix - 1;
    size_t digits = strspn(number, "0123456789");
    return digits > 0 && digits <= 2 && number[digits] == '\0';
}

/* Opened, not just looked at: a container's device rules and dropped capabilities show up in open() only. */
static uint32_t may_open(const char *path)
{
    int descriptor = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return 0;
    close(descriptor);
    return 1;
}

int drvGetDevNum(uint32_t *count)
{
    if (!count)
        return DRV_ERROR_INVALID_VALUE;
    *count = 0;
    const char *folder = device_folder();
    DIR *listing = opendir(folder);
    if (!listing)
        return DRV_ERROR_NONE; /* nothing readable: no cards, which is not an error */
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        char path[4096];
        if (!is_card_node(entry->d_name))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        *count += may_open(path);
    }
    closedir(listing);
    return DRV_ERROR_NONE;
}

int halGetAPIVersion(int *version)
{
    if (!version)
        return DRV_ERROR_INVALID_VALUE;
    *version = HAL_API_VERSION;
    return DRV_ERROR_NONE;
}

int halGetDeviceInfo(uint32_t device, int32_t module, int32_t info, int64_t *value)
{
    (void)device;
    (void)module;
    (void)info;
    if (value)
        *value = 0;
    return DRV_ERROR_NOT_SUPPORT;
}
