"""Changed values of platform, CPUs, memory or kernel, and the rule that finds each."""

from __future__ import annotations

from lockstep.report import Status
from lockstep.spec import x509
from tests.checks.mutation import each, one
from tests.checks.recorded import CERTIFICATE, REMOVED
from tests.checks.recorded_machine import KERNEL

SHA256 = x509.read(CERTIFICATE).sha256
NAME = f"nvidia for {KERNEL}"
CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
THP = "/sys/kernel/mm/transparent_hugepage/enabled"

MACHINE = (
    one("platform.product", "platform", "board_name", "X13-OLD", "X13-OLD"),
    one("platform.bios", "platform", "bios_version", "1.4", "1.4, 12/06/2023"),
    one("platform.bmc_firmware", "platform.bmc_firmware", "", "1.1", "1.1"),
    one("cpu.model", "cpu.model", "", "Xeon 8462Y", "Xeon 8462Y"),
    one("cpu.smt", "cpu.smt", "", "off", "off"),
    one("cpu.microcode", "cpu.microcode", "", "0x1", "0x1"),
    each("cpu.mitigations", "cpu.mitigations", "retbleed", "Vulnerable", "Vulnerable"),
    each("cpu.frequency_driver", "cpu.frequency", "driver", "acpi-cpufreq", "acpi-cpufreq"),
    each("cpu.governor", "cpu.frequency", "governor", "powersave x1", "powersave x1"),
    each("cpu.energy_preference", "cpu.frequency", "energy_preference", "power", "power"),
    one("cpu.boost", "cpu.frequency", "no_turbo", "1", "no_turbo, boost: 1, absent"),
    each("cpu.frequency_limits", "cpu.frequency", "highest", "2000000 kHz", "2000000 kHz"),
    each("cpu.idle_states", "cpu.idle_states", "C1E", "disabled", "disabled"),
    each("cpu.power_limit", "cpu.power_limits", "package-1 long_term", 225.0, "225 W"),
    each("numa.distance", "numa.distance", "node1", "12 10", "12 10"),
    one("memory.total", "memory_mib", "", 66000, "66000 MiB"),
    one("memory.modules", "memory.modules", "P2-DIMMB", "32 GiB: 4400 MT/s", "1 x 32 GiB: 4400"),
    each("memory.uncorrected", "memory.uncorrected", "mc1", 1, "uncorrected errors: 1"),
    each("memory.corrected", "memory.corrected", "mc1", 40, "40 corrected"),
    one("memory.swap", "memory.swap", "", ["partition 8191 MiB"], "partition 8191 MiB"),
    one(
        *("kernel.newest", "kernel.newest", "", "6.12.57+deb13-amd64", "6.12.48"),
        status=Status.PENDING_REBOOT,
    ),
    one("kernel.page_size", "kernel.page_size", "", "64k", "pages of 64k"),
    each("kernel.modules", "kernel.modules", "i10nm_edac", "absent", "absent"),
    each("kernel.nouveau", "kernel.modules", "nouveau", "loaded", "loaded"),
    each("kernel.thp", "kernel.state", THP, "[always] madvise never", "[always]"),
    each("kernel.clocksource", "kernel.state", CLOCK, "hpet", "hpet"),
    each("kernel.page_merging", "kernel.state", "/sys/kernel/mm/ksm/run", "1", "1"),
    each(
        *("kernel.aspm", "kernel.state", "/sys/module/pcie_aspm/parameters/policy"),
        *("powersave", "powersave"),
    ),
    each("kernel.security", "kernel.state", "/sys/kernel/security/lsm", "lockdown", "lockdown"),
    one("kernel.faulted", "kernel.tainted", "", 1 << 12 | 1 | 1 << 4, "machine check"),
    one("kernel.taint", "kernel.tainted", "", 1 << 12 | 1 | 1 << 15, "live patch"),
    each("kernel.log", "kernel.log", "task hung", 3, "messages: 3"),
    each("secure_boot.state", "secure_boot", "firmware", "off", "off"),
    one(
        *("secure_boot.enrolled", "secure_boot.certificates", SHA256, "requested", "requested"),
        "/etc/dkms/lockstep-modules.der",
    ),
    *(
        one("dkms.signed", "dkms.signatures", (KERNEL, "nvidia/1.0", "nvidia"), value, found, NAME)
        for value, found in (
            ({"signer": "", "key": "", "hash": ""}, "no signature"),
            ({"signer": "DKMS module signing key", "key": "0A", "hash": "sha256"}, "number 0A"),
        )
    ),
    each("sysctl.common", "sysctl.common", "vm.zone_reclaim_mode", "7", "7"),
    one(
        *("cpu.frequency_driver", "cpu.frequency", "driver", REMOVED, "not read", "driver"),
        Status.UNKNOWN,
    ),
)
