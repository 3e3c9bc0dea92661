/* The table of internal functions that nvidia-smi asks for, by position.
 *
 * Nothing documents it. nvidia-smi of all branches works if every function answers "not
 * supported", except for those below; their arguments were observed with branches 418 to 555.
 */
#include "state.h"

#include <stdio.h>
#include <string.h>

static nvmlReturn_t not_supported(void) { return NVML_ERROR_NOT_SUPPORTED; }

static nvmlReturn_t by_bus_id(const char *bus_id, nvmlDevice_t *device) {
    return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}

/* Path between two GPUs for topo -m: 0 PIX, 1 PXB, 2 PHB, 3 NODE, 4 SYS. */
static nvmlReturn_t path_between(const char *one, const char *other, unsigned int *path) {
    nvmlDevice_t first, second;
    nvmlGpuTopologyLevel_t level;
    TRY(by_bus_id(one, &first));
    TRY(by_bus_id(other, &second));
    TRY(nvmlDeviceGetTopologyCommonAncestor(first, second, &level));
    *path = level / 10 - 1;
    return NVML_SUCCESS;
}

/* Bus id of an index, which stands in the message about a GPU without a handle. */
static nvmlReturn_t bus_id_of(unsigned int index, nvmlPciInfo_t *pci) {
    int slots[MAX_GPUS];
    char value[VALUE_SIZE];
    if (index >= (unsigned int)count_devices(slots)) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    TRY(state_read(slots[index], "pci.bus_id", value));
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%.12s", value + 4);
    return NVML_SUCCESS;
}

/* enforced.power.limit of --query-gpu, in milliwatts. */
static nvmlReturn_t enforced_limit(nvmlDevice_t device, unsigned int *milliwatts) {
    return scaled_of(device, "enforced.power.limit", 1000, milliwatts);
}

/* Processes as nvidia-smi of the branches 535 to 555 lists them; 4128 bytes each. */
struct process {
    nvmlProcessInfo_v2_t known;
    char other[4128 - sizeof(nvmlProcessInfo_v2_t)];
};
enum { MOST_PROCESSES = 64 };

typedef nvmlReturn_t (*Listing)(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v2_t *infos);

static nvmlReturn_t list_processes(nvmlDevice_t device, unsigned int *count, struct process *out,
                                   Listing listing) {
    nvmlProcessInfo_v2_t found[MOST_PROCESSES];
    unsigned int number = MOST_PROCESSES;
    TRY(listing(device, &number, found));
    if (number > *count) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    for (unsigned int n = 0; n < number; n++) {
        out[n] = (struct process){.known = found[n]};
    }
    *count = number;
    return NVML_SUCCESS;
}

static nvmlReturn_t compute_processes(nvmlDevice_t device, unsigned int *count,
                                      struct process *out) {
    return list_processes(device, count, out, nvmlDeviceGetComputeRunningProcesses_v2);
}

static nvmlReturn_t graphics_processes(nvmlDevice_t device, unsigned int *count,
                                       struct process *out) {
    return list_processes(device, count, out, nvmlDeviceGetGraphicsRunningProcesses_v2);
}

static nvmlReturn_t mps_processes(nvmlDevice_t device, unsigned int *count, struct process *out) {
    return list_processes(device, count, out, nvmlDeviceGetMPSComputeRunningProcesses_v2);
}

struct lane {
    unsigned int corrections, overflow;
};

/* ECC corrections by lane, which nvlink -e of branches 460 and 470 shows for Ampere. */
static nvmlReturn_t link_ecc(nvmlDevice_t device, unsigned int link, unsigned int counter,
                             unsigned int lanes, struct lane lane[4]) {
    unsigned long long errors;
    (void)counter;
    (void)lanes;
    TRY(nvmlDeviceGetNvLinkErrorCounter(device, link, NVML_NVLINK_ERROR_DL_ECC_DATA, &errors));
    memset(lane, 0, 4 * sizeof *lane);
    lane[0].corrections = (unsigned int)errors;
    return NVML_SUCCESS;
}

/* Distance to T.Limit, temperature.gpu.tlimit, in degrees; 550 and newer. */
static nvmlReturn_t margin(nvmlDevice_t device, unsigned int *celsius) {
    return scaled_of(device, "temperature.gpu.tlimit", 1, celsius);
}

/* pcie.link.gen.hostmax. */
static nvmlReturn_t host_generation(nvmlDevice_t device, unsigned int *generation) {
    return scaled_of(device, "pcie.link.gen.hostmax", 1, generation);
}

/* What -q shows of 535 to 555; 470 asks for the module. */
static nvmlReturn_t part_number(nvmlDevice_t device, char *out, unsigned int length) {
    return copy_of(device, "gpu_part_number", out, length);
}

static nvmlReturn_t addressing(nvmlDevice_t device, unsigned int *mode) {
    nvmlDeviceAddressingMode_t found = {.version = nvmlDeviceAddressingMode_v1};
    TRY(nvmlDeviceGetAddressingMode(device, &found));
    *mode = found.value;
    return NVML_SUCCESS;
}

static nvmlReturn_t sparse_mode(nvmlDevice_t device, nvmlEnableState_t *mode) {
    return enabled_of(device, "sparse_operation_mode", mode);
}

EXPORT nvmlReturn_t nvmlInternalGetExportTable(const void **table, const void *id) {
    static const void *functions[512];
    (void)id;
    if (!table) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (size_t n = 0; n < COUNT(functions); n++) {
        functions[n] = (const void *)not_supported;
    }
    functions[23] = (const void *)path_between;
    functions[65] = (const void *)nvmlDeviceGetArchitecture; /* topo -m of 418: above 3 has links */
    functions[81] = (const void *)bus_id_of;
    functions[108] = (const void *)enforced_limit;
    functions[197] = (const void *)link_ecc; /* 460 */
    functions[208] = (const void *)link_ecc; /* 470 */
    functions[230] = (const void *)host_generation;
    functions[240] = (const void *)margin;
    functions[213] = (const void *)compute_processes; /* 535 to 555, like the next two */
    functions[214] = (const void *)mps_processes;
    functions[215] = (const void *)graphics_processes;
    functions[207] = (const void *)nvmlDeviceGetModuleId; /* 470 */
    functions[231] = (const void *)part_number;
    functions[242] = (const void *)addressing;
    functions[243] = (const void *)sparse_mode; /* 535 */
    functions[249] = (const void *)sparse_mode; /* 550, 555 */
    *table = functions;
    return NVML_SUCCESS;
}
