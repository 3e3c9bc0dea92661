/* Xid events: key "xid" of a GPU, the numbers so far ("79 48"); an event set sees those that come. */
#include "state.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct nvmlEventSet_st {
    unsigned long long types[MAX_GPUS];
    size_t seen[MAX_GPUS];
};

static size_t xids(int slot, unsigned long long *last) {
    char value[VALUE_SIZE];
    char *rest = value;
    size_t count = 0;
    if (state_read(slot, "xid", value) != NVML_SUCCESS) {
        return 0;
    }
    for (char *part; (part = strsep(&rest, " "));) {
        if (*part >= '0' && *part <= '9') { /* "none" is no number */
            *last = strtoull(part, NULL, 10);
            count++;
        }
    }
    return count;
}

EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) {
    if (!initialized()) {
        return NVML_ERROR_UNINITIALIZED;
    }
    if (!set) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *set = calloc(1, sizeof **set);
    return *set ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
    free(set);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device,
                                                     unsigned long long *types) {
    TRY(usable(device, false));
    if (!types) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *types = nvmlEventTypeXidCriticalError | nvmlEventTypeSingleBitEccError |
             nvmlEventTypeDoubleBitEccError | nvmlEventTypeClock;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                             nvmlEventSet_t set) {
    unsigned long long last, supported;
    TRY(nvmlDeviceGetSupportedEventTypes(device, &supported));
    if (!set || (types & ~supported)) {
        return set ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
    }
    set->types[device->slot] = types;
    set->seen[device->slot] = xids(device->slot, &last);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data,
                                        unsigned int timeout_ms) {
    if (!initialized()) {
        return NVML_ERROR_UNINITIALIZED;
    }
    if (!set || !data) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (unsigned int waited = 0;; waited += 100) {
        for (int slot = 0; slot < MAX_GPUS; slot++) {
            unsigned long long xid = 0;
            size_t count = xids(slot, &xid);
            bool comes = count > set->seen[slot];
            set->seen[slot] = count; /* fewer, after a boot or a change of the state */
            if (comes && (set->types[slot] & nvmlEventTypeXidCriticalError)) {
                *data = (nvmlEventData_t){handle_of(slot), nvmlEventTypeXidCriticalError, xid,
                                          0xFFFFFFFF, 0xFFFFFFFF};
                return NVML_SUCCESS;
            }
        }
        if (waited >= timeout_ms) {
            return NVML_ERROR_TIMEOUT;
        }
        nanosleep(&(struct timespec){0, 100000000}, NULL);
    }
}

EXPORT nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data,
                                     unsigned int timeout_ms) {
    return nvmlEventSetWait_v2(set, data, timeout_ms);
}
