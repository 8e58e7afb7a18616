/* aclnnConstantPadNd: the one operator that torch_npu's C++ calls without going through torch's dispatcher, where the
   Python operators would catch it. ProcessGroupHCCL pads the tensors of an all_gather to 512 bytes with it, with zeros
   at the end; that much is implemented. */
#include <stdlib.h>
#include <string.h>

#include "cannsim.h"
#include "descriptors.h"

struct aclOpExecutor {
    aclTensor source;
    aclTensor target;
    int64_t before[MAX_DIMENSIONS]; /* padding in front of the data, per dimension */
};

aclError aclnnConstantPadNdGetWorkspaceSize(const aclTensor *source, const aclIntArray *padding,
                                            const aclScalar *value, aclTensor *target, uint64_t *workspace,
                                            aclOpExecutor **executor);
aclError aclnnConstantPadNd(void *workspace, uint64_t bytes, aclOpExecutor *executor, aclrtStream stream);

static int is_zero(const aclScalar *value)
{
    static const unsigned char zero[sizeof value->value];
    return memcmp(value->value, zero, sizeof zero) == 0;
}

/* Fills in `before`; the pairs of `padding` start at the last dimension. */
static int fits(const aclTensor *source, const aclIntArray *padding, const aclTensor *target, int64_t *before)
{
    if (source->type != target->type || source->rank != target->rank || padding->size > 2 * source->rank)
        return 0;
    for (uint64_t i = 0; i < source->rank; i++) {
        uint64_t pair = 2 * (source->rank - 1 - i);
        int64_t front = pair < padding->size ? padding->values[pair] : 0;
        int64_t back = pair + 1 < padding->size ? padding->values[pair + 1] : 0;
        if (front < 0 || back < 0 || source->shape[i] + front + back != target->shape[i])
            return 0;
        before[i] = front;
    }
    return 1;
}

aclError aclnnConstantPadNdGetWorkspaceSize(const aclTensor *source, const aclIntArray *padding,
                                            const aclScalar *value, aclTensor *target, uint64_t *workspace,
                                            aclOpExecutor **executor)
{
    LOG_CALL();
    if (!source || !padding || !value || !target)
        return ACL_ERROR_INVALID_PARAM;
    aclOpExecutor *prepared = calloc(1, sizeof *prepared);
    if (!prepared)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    if (!acl_type_bytes(source->type) || !is_zero(value) || !fits(source, padding, target, prepared->before)) {
        cannsim_set_error("operator aclnnConstantPadNd is implemented for padding with zeros only");
        free(prepared);
        return ACL_ERROR_API_NOT_SUPPORT;
    }
    prepared->source = *source;
    prepared->target = *target;
    *workspace = 0;
    *executor = prepared;
    return ACL_SUCCESS;
}

static char *element(const aclTensor *tensor, const int64_t *index)
{
    int64_t place = tensor->offset;
    for (uint64_t i = 0; i < tensor->rank; i++)
        place += index[i] * tensor->stride[i];
    return tensor->data + place * (int64_t)acl_type_bytes(tensor->type);
}

/* Next index in row-major order; 0 after the last one. */
static int advance(int64_t *index, const aclTensor *tensor)
{
    for (uint64_t i = tensor->rank; i-- > 0;) {
        if (++index[i] < tensor->shape[i])
            return 1;
        index[i] = 0;
    }
    return 0;
}

static int is_empty(const aclTensor *tensor)
{
    for (uint64_t i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] == 0)
            return 1;
    return 0;
}

/* Where the element of the target comes from; NULL in the padding. */
static const char *origin(const aclOpExecutor *prepared, const int64_t *index)
{
    int64_t inner[MAX_DIMENSIONS];
    for (uint64_t i = 0; i < prepared->source.rank; i++) {
        inner[i] = index[i] - prepared->before[i];
        if (inner[i] < 0 || inner[i] >= prepared->source.shape[i])
            return NULL;
    }
    return element(&prepared->source, inner);
}

aclError aclnnConstantPadNd(void *workspace, uint64_t bytes, aclOpExecutor *executor, aclrtStream stream)
{
    LOG_CALL();
    (void)workspace;
    (void)bytes;
    (void)stream;
    size_t width = acl_type_bytes(executor->target.type);
    int64_t index[MAX_DIMENSIONS] = {0};
    int more = !is_empty(&executor->target);
    while (more) {
        const char *from = origin(executor, index);
        char *to = element(&executor->target, index);
        if (from)
            memcpy(to, from, width);
        else
            memset(to, 0, width);
        more = advance(index, &executor->target);
    }
    free(executor);
    return ACL_SUCCESS;
}
