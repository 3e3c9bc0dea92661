/* Values by number: nvmlDeviceGetFieldValues. */
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    unsigned int id;
    const char *key;
    double scale;
    nvmlValueType_t type;
} Field;

#define UINT NVML_VALUE_TYPE_UNSIGNED_INT
#define ULL NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
#define SINT NVML_VALUE_TYPE_SIGNED_INT
#define ECC(id, kind, counter, place)                                                            \
    { id, "ecc.errors." kind "." counter "." place, 1, ULL }

static const Field FIELDS[] = {
    {NVML_FI_DEV_ECC_CURRENT, "ecc.mode.current", 0, UINT},
    {NVML_FI_DEV_ECC_PENDING, "ecc.mode.pending", 0, UINT},
    ECC(NVML_FI_DEV_ECC_SBE_VOL_TOTAL, "corrected", "volatile", "total"),
    ECC(NVML_FI_DEV_ECC_DBE_VOL_TOTAL, "uncorrected", "volatile", "total"),
    ECC(NVML_FI_DEV_ECC_SBE_AGG_TOTAL, "corrected", "aggregate", "total"),
    ECC(NVML_FI_DEV_ECC_DBE_AGG_TOTAL, "uncorrected", "aggregate", "total"),
    ECC(NVML_FI_DEV_ECC_SBE_VOL_DEV, "corrected", "volatile", "dram"),
    ECC(NVML_FI_DEV_ECC_DBE_VOL_DEV, "uncorrected", "volatile", "dram"),
    ECC(NVML_FI_DEV_ECC_SBE_AGG_DEV, "corrected", "aggregate", "dram"),
    ECC(NVML_FI_DEV_ECC_DBE_AGG_DEV, "uncorrected", "aggregate", "dram"),
    {NVML_FI_DEV_RETIRED_SBE, "retired_pages.single_bit_ecc.count", 1, ULL},
    {NVML_FI_DEV_RETIRED_DBE, "retired_pages.double_bit.count", 1, ULL},
    {NVML_FI_DEV_RETIRED_PENDING, "retired_pages.pending", 0, UINT},
    {NVML_FI_DEV_MEMORY_TEMP, "temperature.memory", 1, UINT},
    {NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, "energy_mj", 1, ULL},
    {NVML_FI_DEV_PCIE_REPLAY_COUNTER, "pcie.replays", 1, UINT},
    {NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER, "pcie.replay_rollovers", 1, UINT},
    {NVML_FI_DEV_REMAPPED_COR, "remapped_rows.correctable", 1, UINT},
    {NVML_FI_DEV_REMAPPED_UNC, "remapped_rows.uncorrectable", 1, UINT},
    {NVML_FI_DEV_REMAPPED_PENDING, "remapped_rows.pending", 0, UINT},
    {NVML_FI_DEV_REMAPPED_FAILURE, "remapped_rows.failure", 0, UINT},
    {NVML_FI_DEV_POWER_AVERAGE, "power.draw.average", 1000, UINT},
    {NVML_FI_DEV_POWER_INSTANT, "power.draw.instant", 1000, UINT},
    {NVML_FI_DEV_POWER_MIN_LIMIT, "power.min_limit", 1000, UINT},
    {NVML_FI_DEV_POWER_MAX_LIMIT, "power.max_limit", 1000, UINT},
    {NVML_FI_DEV_POWER_DEFAULT_LIMIT, "power.default_limit", 1000, UINT},
    {NVML_FI_DEV_POWER_CURRENT_LIMIT, "enforced.power.limit", 1000, UINT},
    {NVML_FI_DEV_POWER_REQUESTED_LIMIT, "power.limit", 1000, UINT},
    {NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT, "temperature.shutdown_tlimit", 1, SINT},
    {NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT, "temperature.slowdown_tlimit", 1, SINT},
    {NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT, "temperature.memory_max_operating_tlimit", 1, SINT},
    {NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT, "temperature.max_operating_tlimit", 1, SINT},
    {NVML_FI_DEV_C2C_LINK_COUNT, "c2c.links", 1, UINT},
    {NVML_FI_DEV_RESET_STATUS, "reset_status.reset_required", 0, UINT},
    {NVML_FI_DEV_DRAIN_AND_RESET_STATUS, "reset_status.drain_and_reset_recommended", 0, UINT},
    {NVML_FI_DEV_PERF_POLICY_POWER, "clocks_event_reasons_counters.sw_power_cap", 1000, ULL},
    {NVML_FI_DEV_PERF_POLICY_THERMAL, "clocks_event_reasons_counters.hw_thermal_slowdown", 1000,
     ULL},
    {NVML_FI_DEV_PERF_POLICY_SYNC_BOOST, "clocks_event_reasons_counters.sync_boost", 1000, ULL},
    {NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN,
     "clocks_event_reasons_counters.sw_thermal_slowdown", 1000, ULL},
    {NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN,
     "clocks_event_reasons_counters.hw_thermal_slowdown", 1000, ULL},
    {NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN,
     "clocks_event_reasons_counters.hw_power_brake_slowdown", 1000, ULL},
};

/* Counters of a link. The older numbers have the link within them, in two ranges; the newer ones
 * take it from the scope. */
static const struct {
    unsigned int first, last; /* range of numbers for links from `link` on */
    unsigned int link;
    const char *what;
} LINK_RANGES[] = {
    {NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L5, 0, "crc"},
    {NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L6, NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L11, 6, "crc"},
    {NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L5, 0, "crc_data"},
    {NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L6, NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L11, 6, "crc_data"},
    {NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L5, 0, "replay"},
    {NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L6, NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L11, 6, "replay"},
    {NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L5, 0, "recovery"},
    {NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L6, NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L11, 6, "recovery"},
    {NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_L11, 0, "ecc"},
};

static const struct {
    unsigned int id;
    const char *what;
} LINK_SCOPED[] = {
    {NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, "replay"},
    {NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY, "recovery"},
    {NVML_FI_DEV_NVLINK_ERROR_DL_CRC, "crc"},
    {NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS, "link_recovery_failed"},
    {NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS, "effective_errors"},
    {NVML_FI_DEV_NVLINK_COUNT_SYMBOL_ERRORS, "symbol_errors"},
};

static void give(nvmlFieldValue_t *field, nvmlValueType_t type, double value) {
    field->valueType = type;
    field->nvmlReturn = NVML_SUCCESS;
    if (type == NVML_VALUE_TYPE_SIGNED_INT) {
        field->value.siVal = (int)value;
    } else if (type == ULL) {
        field->value.ullVal = (unsigned long long)value;
    } else {
        field->value.ullVal = 0;
        field->value.uiVal = (unsigned int)(value + 0.5);
    }
}

/* "26.562" GB/s -> 26562 MB/s */
static nvmlReturn_t speed_of(nvmlDevice_t device, unsigned int link, double *mbps) {
    char value[VALUE_SIZE];
    bool active;
    TRY(link_active(device, link, &active));
    TRY(link_text(device, link, "speed", value));
    *mbps = active ? strtod(value, NULL) * 1000 : 0;
    return NVML_SUCCESS;
}

static nvmlReturn_t of_link(nvmlDevice_t device, nvmlFieldValue_t *field) {
    unsigned int id = field->fieldId, link = field->scopeId;
    char value[VALUE_SIZE];
    double mbps;
    bool active;
    if ((id >= NVML_FI_DEV_NVLINK_SPEED_MBPS_L0 && id <= NVML_FI_DEV_NVLINK_SPEED_MBPS_L5) ||
        (id >= NVML_FI_DEV_NVLINK_SPEED_MBPS_L6 && id <= NVML_FI_DEV_NVLINK_SPEED_MBPS_L11)) {
        link = id <= NVML_FI_DEV_NVLINK_SPEED_MBPS_L5 ? id - NVML_FI_DEV_NVLINK_SPEED_MBPS_L0
                                                      : id - NVML_FI_DEV_NVLINK_SPEED_MBPS_L6 + 6;
        TRY(speed_of(device, link, &mbps));
        give(field, UINT, mbps);
        return NVML_SUCCESS;
    }
    if (id == NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON) {
        for (link = 0; link < NVML_NVLINK_MAX_LINKS; link++) {
            if (speed_of(device, link, &mbps) == NVML_SUCCESS && mbps > 0) {
                give(field, UINT, mbps);
                return NVML_SUCCESS;
            }
        }
        return NVML_ERROR_NOT_SUPPORTED;
    }
    if (id == NVML_FI_DEV_NVLINK_LINK_COUNT) {
        unsigned int count = 0;
        for (; count < NVML_NVLINK_MAX_LINKS; count++) {
            if (link_active(device, count, &active) != NVML_SUCCESS) {
                break;
            }
        }
        if (count == 0) {
            return NVML_ERROR_NOT_SUPPORTED;
        }
        give(field, UINT, count);
        return NVML_SUCCESS;
    }
    if (id == NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT) {
        give(field, UINT, active_links(device));
        return NVML_SUCCESS;
    }
    if (id == NVML_FI_DEV_NVLINK_GET_SPEED || id == NVML_FI_DEV_NVLINK_GET_STATE) {
        TRY(speed_of(device, link, &mbps));
        give(field, UINT, id == NVML_FI_DEV_NVLINK_GET_SPEED ? mbps : mbps > 0);
        return NVML_SUCCESS;
    }
    if (id == NVML_FI_DEV_NVLINK_GET_VERSION) {
        TRY(link_active(device, link, &active));
        TRY(text_of(device, "nvlink.version", value));
        give(field, UINT, strtod(value, NULL));
        return NVML_SUCCESS;
    }
    const char *what = NULL;
    for (size_t n = 0; n < COUNT(LINK_RANGES); n++) {
        if (id >= LINK_RANGES[n].first && id <= LINK_RANGES[n].last) {
            what = LINK_RANGES[n].what;
            link = id - LINK_RANGES[n].first + LINK_RANGES[n].link;
        }
    }
    for (size_t n = 0; n < COUNT(LINK_SCOPED); n++) {
        if (id == LINK_SCOPED[n].id) {
            what = LINK_SCOPED[n].what;
        }
    }
    if (!what) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    TRY(link_text(device, link, what, value));
    give(field, ULL, strtod(value, NULL));
    return NVML_SUCCESS;
}

/* Power of the module (a GPU with its CPU) and of the memory. */
static nvmlReturn_t of_scope(nvmlDevice_t device, nvmlFieldValue_t *field) {
    static const struct {
        unsigned int id, scope;
        const char *key;
    } SCOPED[] = {
        {NVML_FI_DEV_POWER_AVERAGE, NVML_POWER_SCOPE_MODULE, "module.power.draw.average"},
        {NVML_FI_DEV_POWER_INSTANT, NVML_POWER_SCOPE_MODULE, "module.power.draw.instant"},
        {NVML_FI_DEV_POWER_MIN_LIMIT, NVML_POWER_SCOPE_MODULE, "module.power.min_limit"},
        {NVML_FI_DEV_POWER_MAX_LIMIT, NVML_POWER_SCOPE_MODULE, "module.power.max_limit"},
        {NVML_FI_DEV_POWER_DEFAULT_LIMIT, NVML_POWER_SCOPE_MODULE, "module.power.default_limit"},
        {NVML_FI_DEV_POWER_CURRENT_LIMIT, NVML_POWER_SCOPE_MODULE, "module.enforced.power.limit"},
        {NVML_FI_DEV_POWER_REQUESTED_LIMIT, NVML_POWER_SCOPE_MODULE, "module.power.limit"},
        {NVML_FI_DEV_POWER_AVERAGE, NVML_POWER_SCOPE_MEMORY, "memory_power.draw.average"},
    };
    unsigned int milliwatts;
    for (size_t n = 0; n < COUNT(SCOPED); n++) {
        if (SCOPED[n].id == field->fieldId && SCOPED[n].scope == field->scopeId) {
            TRY(scaled_of(device, SCOPED[n].key, 1000, &milliwatts));
            give(field, UINT, milliwatts);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t of_gpu(nvmlDevice_t device, nvmlFieldValue_t *field) {
    static const char *const ACTIONS[] = {"None",      "Reset",           "Reboot",
                                          "Drain P2P", "Drain and Reset", NULL};
    unsigned int action;
    if (field->fieldId == NVML_FI_DEV_GET_GPU_RECOVERY_ACTION) {
        TRY(choice_of(device, "gpu_recovery_action", ACTIONS, &action));
        give(field, UINT, action);
        return NVML_SUCCESS;
    }
    if (field->fieldId == NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED) {
        char value[VALUE_SIZE];
        TRY(text_of(device, "mig.resetless", value));
        give(field, UINT, strcmp(value, "yes") == 0);
        return NVML_SUCCESS;
    }
    if (field->fieldId >= NVML_FI_DEV_POWER_AVERAGE &&
        field->fieldId <= NVML_FI_DEV_POWER_REQUESTED_LIMIT && field->scopeId != 0) {
        return of_scope(device, field);
    }
    for (size_t n = 0; n < COUNT(FIELDS); n++) {
        double value;
        nvmlEnableState_t enabled;
        if (FIELDS[n].id != field->fieldId) {
            continue;
        }
        if (FIELDS[n].scale == 0) {
            TRY(enabled_of(device, FIELDS[n].key, &enabled));
            value = enabled;
        } else {
            TRY(real_of(device, FIELDS[n].key, &value));
            value *= FIELDS[n].scale;
        }
        give(field, FIELDS[n].type, value);
        return NVML_SUCCESS;
    }
    return of_link(device, field);
}

EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count,
                                             nvmlFieldValue_t *values) {
    struct timespec now;
    TRY(usable(device, false));
    if (count < 0 || (count > 0 && !values)) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    for (int n = 0; n < count; n++) {
        values[n].timestamp = now.tv_sec * 1000000LL + now.tv_nsec / 1000;
        values[n].latencyUsec = 0;
        values[n].nvmlReturn = of_gpu(device, &values[n]);
        if (getenv("LOCKSTEP_NVML_TRACE")) {
            fprintf(stderr, "nvml: field %u scope %u -> %d\n", values[n].fieldId,
                    values[n].scopeId, values[n].nvmlReturn);
        }
    }
    return NVML_SUCCESS;
}
