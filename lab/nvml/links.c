/* NVLinks, the fabric of an NVLink domain, and the paths between GPUs. */
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char INACTIVE[] = "<inactive>";
/* In the order of NVML_NVLINK_ERROR_DL_*. */
static const char *const KINDS[] = {"replay", "recovery", "crc", "crc_data", "ecc"};

/* Return the value of one link: "nvlink.3.speed". */
nvmlReturn_t link_text(nvmlDevice_t device, unsigned int link, const char *what,
                       char value[VALUE_SIZE]) {
    char key[64];
    if (link >= NVML_NVLINK_MAX_LINKS) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    snprintf(key, sizeof key, "nvlink.%u.%s", link, what);
    return text_of(device, key, value);
}

/* NVML refuses a link's number that the GPU does not have. */
nvmlReturn_t link_active(nvmlDevice_t device, unsigned int link, bool *active) {
    char value[VALUE_SIZE];
    nvmlReturn_t status = link_text(device, link, "speed", value);
    if (status != NVML_SUCCESS) {
        return status;
    }
    *active = strcmp(value, INACTIVE) != 0;
    return NVML_SUCCESS;
}

unsigned int active_links(nvmlDevice_t device) {
    unsigned int count = 0;
    for (unsigned int link = 0; link < NVML_NVLINK_MAX_LINKS; link++) {
        bool active = false;
        count += link_active(device, link, &active) == NVML_SUCCESS && active;
    }
    return count;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
                                             nvmlEnableState_t *state) {
    bool active;
    TRY(link_active(device, link, &active));
    *state = active ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link,
                                               unsigned int *version) {
    bool active;
    TRY(link_active(device, link, &active));
    return scaled_of(device, "nvlink.version", 1, version);
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link,
                                                  nvmlNvLinkCapability_t capability,
                                                  unsigned int *result) {
    bool active;
    TRY(link_active(device, link, &active));
    *result = active && capability != NVML_NVLINK_CAP_SLI_BRIDGE;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link,
                                                    nvmlNvLinkErrorCounter_t counter,
                                                    unsigned long long *value) {
    char key[64];
    bool active;
    TRY(link_active(device, link, &active));
    if ((unsigned int)counter >= COUNT(KINDS) || !value) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    snprintf(key, sizeof key, "nvlink.%u.%s", link, KINDS[counter]);
    nvmlReturn_t status = whole_of(device, key, value);
    if (status == NVML_ERROR_NOT_SUPPORTED && counter >= NVML_NVLINK_ERROR_DL_CRC_DATA) {
        /* Only set to show a fault: older branches ask for these beside the others. */
        TRY(whole_of(device, "nvlink.0.crc", value));
        *value = 0;
        return NVML_SUCCESS;
    }
    return status;
}

EXPORT nvmlReturn_t nvmlDeviceResetNvLinkErrorCounters(nvmlDevice_t device, unsigned int link) {
    char keys[COUNT(KINDS)][64], value[VALUE_SIZE];
    const char *pairs[COUNT(KINDS)][2];
    size_t count = 0;
    bool active;
    TRY(link_active(device, link, &active));
    TRY(may_write(device));
    for (size_t n = 0; n < COUNT(KINDS); n++) {
        if (link_text(device, link, KINDS[n], value) == NVML_SUCCESS) {
            snprintf(keys[n], sizeof keys[n], "nvlink.%u.%s", link, KINDS[n]);
            pairs[count][0] = keys[n];
            pairs[count++][1] = "0";
        }
    }
    return count ? state_write(device->slot, pairs, count) : NVML_SUCCESS;
}

/* With NVSwitches, the far end of every link is a switch; otherwise a link may name a bus id. */
static nvmlReturn_t remote(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci,
                           size_t size) {
    char value[VALUE_SIZE];
    nvmlPciInfo_t found = {0};
    bool active;
    TRY(link_active(device, link, &active));
    if (!active) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    if (link_text(device, link, "remote", value) != NVML_SUCCESS) {
        snprintf(value, sizeof value, "00000000:%02X:00.0", 5 + link % 4);
        found.pciDeviceId = 0x22a310de; /* NVSwitch of an HGX H100, pci.ids */
    }
    if (sscanf(value, "%x:%x:%x", &found.domain, &found.bus, &found.device) != 3) {
        return NVML_ERROR_UNKNOWN;
    }
    snprintf(found.busId, sizeof found.busId, "%.16s", value);
    snprintf(found.busIdLegacy, sizeof found.busIdLegacy, "%04X:%.7s", found.domain & 0xffff,
             value + 9);
    memcpy(pci, &found, size);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
                                                        nvmlPciInfo_t *pci) {
    return remote(device, link, pci, sizeof *pci);
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link,
                                                     nvmlPciInfo_t *pci) {
    return remote(device, link, pci, offsetof(nvmlPciInfo_t, busId));
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
                                                        nvmlIntNvLinkDeviceType_t *type) {
    char value[VALUE_SIZE];
    bool active;
    TRY(link_active(device, link, &active));
    *type = link_text(device, link, "remote", value) == NVML_SUCCESS ? NVML_NVLINK_DEVICE_TYPE_GPU
                                                                    : NVML_NVLINK_DEVICE_TYPE_SWITCH;
    return NVML_SUCCESS;
}

typedef struct {
    unsigned char cluster[NVML_GPU_FABRIC_UUID_LEN];
    nvmlReturn_t status;
    unsigned int clique;
    nvmlGpuFabricState_t state;
} Fabric;

static nvmlReturn_t fabric_of(nvmlDevice_t device, Fabric *fabric) {
    static const char *const STATES[] = {"Not Supported", "Not Started", "In Progress",
                                         "Completed", NULL};
    char value[VALUE_SIZE];
    unsigned int state;
    *fabric = (Fabric){0};
    TRY(choice_of(device, "fabric.state", STATES, &state));
    fabric->state = (nvmlGpuFabricState_t)state;
    if (text_of(device, "fabric.status", value) == NVML_SUCCESS && strcmp(value, "Success") != 0) {
        fabric->status = strcmp(value, "N/A") == 0 ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
    }
    if (text_of(device, "fabric.cliqueId", value) == NVML_SUCCESS) {
        fabric->clique = (unsigned int)strtoul(value, NULL, 0);
    }
    if (text_of(device, "fabric.clusterUuid", value) == NVML_SUCCESS) {
        size_t at = 0;
        for (const char *digit = value; *digit && at < sizeof fabric->cluster; digit++) {
            unsigned int byte;
            if (*digit != '-' && sscanf(digit, "%2x", &byte) == 1) {
                fabric->cluster[at++] = (unsigned char)byte;
                digit++;
            }
        }
    }
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info) {
    Fabric found;
    TRY(fabric_of(device, &found));
    memcpy(info->clusterUuid, found.cluster, sizeof found.cluster);
    info->status = found.status;
    info->cliqueId = found.clique;
    info->state = found.state;
    return NVML_SUCCESS;
}

/* The words of -q are numbered as in nvml.h; an absent key is "not supported", 0. */
static unsigned int fabric_health(nvmlDevice_t device) {
    static const char *const TRUTH[] = {"N/A", "True", "False", NULL};
    static const char *const BANDWIDTH[] = {"N/A", "Degraded", "Full", NULL};
    static const struct {
        const char *key;
        const char *const *words;
        unsigned int shift;
    } PARTS[] = {
        {"bandwidth", BANDWIDTH, NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW},
        {"route_recovery_in_progress", TRUTH, NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_RECOVERY},
        {"route_unhealthy", TRUTH, NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY},
        {"access_timeout_recovery", TRUTH,
         NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ACCESS_TIMEOUT_RECOVERY},
    };
    unsigned int mask = 0, number;
    for (size_t n = 0; n < COUNT(PARTS); n++) {
        char key[64];
        snprintf(key, sizeof key, "fabric.health.%s", PARTS[n].key);
        if (choice_of(device, key, PARTS[n].words, &number) == NVML_SUCCESS) {
            mask |= number << PARTS[n].shift;
        }
    }
    return mask;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *info) {
    Fabric found;
    if (!info) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (info->version != nvmlGpuFabricInfo_v2 && info->version != nvmlGpuFabricInfo_v3) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    TRY(fabric_of(device, &found));
    memcpy(info->clusterUuid, found.cluster, sizeof found.cluster);
    info->status = found.status;
    info->cliqueId = found.clique;
    info->state = found.state;
    info->healthMask = fabric_health(device);
    if (info->version == nvmlGpuFabricInfo_v3) {
        info->healthSummary = NVML_GPU_FABRIC_HEALTH_SUMMARY_NOT_SUPPORTED;
    }
    return NVML_SUCCESS;
}

static bool same_value(nvmlDevice_t one, nvmlDevice_t other, const char *key) {
    char first[VALUE_SIZE], second[VALUE_SIZE];
    return text_of(one, key, first) == NVML_SUCCESS && text_of(other, key, second) == NVML_SUCCESS &&
           strcmp(first, second) == 0;
}

EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other,
                                                        nvmlGpuTopologyLevel_t *level) {
    TRY(usable(one, true));
    TRY(usable(other, true));
    if (!level) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *level = one->slot == other->slot                  ? NVML_TOPOLOGY_INTERNAL
             : same_value(one, other, "numa_affinity") ? NVML_TOPOLOGY_NODE
                                                       : NVML_TOPOLOGY_SYSTEM;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device,
                                                     nvmlGpuTopologyLevel_t level,
                                                     unsigned int *count, nvmlDevice_t *devices) {
    int slots[MAX_GPUS];
    unsigned int found = 0, room = count ? *count : 0;
    TRY(usable(device, true));
    if (!count) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (int n = 0, total = count_devices(slots); n < total; n++) {
        nvmlGpuTopologyLevel_t between;
        nvmlDevice_t other = handle_of(slots[n]);
        if (slots[n] != device->slot &&
            nvmlDeviceGetTopologyCommonAncestor(device, other, &between) == NVML_SUCCESS &&
            between == level) {
            if (devices && found < room) {
                devices[found] = other;
            }
            found++;
        }
    }
    *count = found;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other,
                                           nvmlGpuP2PCapsIndex_t index,
                                           nvmlGpuP2PStatus_t *status) {
    TRY(usable(one, false));
    TRY(usable(other, false));
    if (!status) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    bool linked = active_links(one) && active_links(other);
    *status = index != NVML_P2P_CAPS_INDEX_NVLINK || linked ? NVML_P2P_STATUS_OK
                                                            : NVML_P2P_STATUS_NOT_SUPPORTED;
    return NVML_SUCCESS;
}
