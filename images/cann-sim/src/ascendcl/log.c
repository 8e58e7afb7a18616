/* The call log. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cannsim.h"

int cannsim_log_on(void)
{
    static int on = -1;
    if (on < 0) {
        const char *target = getenv("CANNSIM_LOG");
        on = target && *target && strcmp(target, "0") != 0;
    }
    return on;
}

/* Opened once per process tree: a forked child inherits the descriptor, and O_APPEND with one write() per line keeps
   lines of several processes whole. */
static int log_descriptor(void)
{
    static int descriptor = -1;
    if (descriptor < 0) {
        const char *target = getenv("CANNSIM_LOG");
        if (target && strcmp(target, "1") != 0)
            descriptor = open(target, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
        if (descriptor < 0)
            descriptor = STDERR_FILENO;
    }
    return descriptor;
}

void cannsim_log(const char *format, ...)
{
    char line[512];
    int head = snprintf(line, sizeof line, "[cannsim %d] ", (int)getpid());
    va_list arguments;
    va_start(arguments, format);
    int body = vsnprintf(line + head, sizeof line - (size_t)head - 1, format, arguments);
    va_end(arguments);
    size_t length = (size_t)head + (size_t)(body > 0 ? body : 0);
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    line[length++] = '\n';
    ssize_t written = write(log_descriptor(), line, length);
    (void)written; /* a full disk must not stop the program that is being observed */
}
