/* Compiler options. There is no compiler to configure, but torch_npu reads one option back and acts on it. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cannsim.h"

enum { OPTIONS = 32, VALUE_CAPACITY = 256, ACL_OP_JIT_COMPILE = 10 };

aclError aclSetCompileopt(int option, const char *value);
size_t aclGetCompileoptSize(int option);
aclError aclGetCompileopt(int option, char *value, size_t length);

/* The chip's default. With "enable", torch_npu would convert convolution weights to the device's own formats. */
static char values[OPTIONS][VALUE_CAPACITY] = {[ACL_OP_JIT_COMPILE] = "disable"};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int known(int option)
{
    return option >= 0 && option < OPTIONS;
}

aclError aclSetCompileopt(int option, const char *value)
{
    LOG_CALL();
    if (!known(option) || !value)
        return ACL_ERROR_INVALID_PARAM;
    pthread_mutex_lock(&lock);
    snprintf(values[option], VALUE_CAPACITY, "%s", value);
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

/* Including the final zero. */
size_t aclGetCompileoptSize(int option)
{
    LOG_CALL();
    if (!known(option))
        return 0;
    pthread_mutex_lock(&lock);
    size_t size = strlen(values[option]) + 1;
    pthread_mutex_unlock(&lock);
    return size;
}

aclError aclGetCompileopt(int option, char *value, size_t length)
{
    LOG_CALL();
    if (!known(option) || !value)
        return ACL_ERROR_INVALID_PARAM;
    pthread_mutex_lock(&lock);
    snprintf(value, length, "%s", values[option]);
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}
