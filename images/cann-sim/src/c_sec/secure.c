/* libc_sec.so: the bounds-checked C functions that torch_npu's binaries link to. Toolkit and driver both ship it. */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

int strcpy_s(char *target, size_t capacity, const char *source);
int memcpy_s(void *target, size_t capacity, const void *source, size_t count);
int memset_s(void *target, size_t capacity, int value, size_t count);
int vsnprintf_s(char *target, size_t capacity, size_t count, const char *format, va_list arguments);
int snprintf_s(char *target, size_t capacity, size_t count, const char *format, ...);

int strcpy_s(char *target, size_t capacity, const char *source)
{
    if (!target || !source)
        return EINVAL;
    size_t length = strlen(source);
    if (length >= capacity)
        return ERANGE;
    memcpy(target, source, length + 1);
    return 0;
}

int memcpy_s(void *target, size_t capacity, const void *source, size_t count)
{
    if (!target || !source)
        return EINVAL;
    if (count > capacity)
        return ERANGE;
    memmove(target, source, count);
    return 0;
}

int memset_s(void *target, size_t capacity, int value, size_t count)
{
    if (!target)
        return EINVAL;
    if (count > capacity)
        return ERANGE;
    memset(target, value, count);
    return 0;
}

/* Returns the number of characters, or -1 when the text was cut: callers tell truncation from it. */
int vsnprintf_s(char *target, size_t capacity, size_t count, const char *format, va_list arguments)
{
    if (!target || !capacity || !format)
        return -1;
    size_t room = count < capacity ? count + 1 : capacity;
    int written = vsnprintf(target, room, format, arguments);
    return written >= 0 && (size_t)written < room ? written : -1;
}

int snprintf_s(char *target, size_t capacity, size_t count, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf_s(target, capacity, count, format, arguments);
    va_end(arguments);
    return written;
}
