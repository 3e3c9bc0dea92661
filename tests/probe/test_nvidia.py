"""Readings of NVIDIA's driver and GPUs, and of their failures."""

from __future__ import annotations

import os
import shlex
import struct
from pathlib import Path

import pytest

from lockstep.node.readers import gpu, gpu_fields, reading
from lockstep.node.readers.pci import redirected
from tests.probe.test_collect import GPU_ROW, Node, gpus, node

__all__ = ["node"]

CAPTURES = Path(__file__).parent.parent / "captures" / "nvidia_smi"
FIELDS = [*(field for _, field, _ in gpu_fields.EVERY), *gpu_fields.SENSORS]
ROW = GPU_ROW.format(index=1, enforced="700.00")


def answers(node: Node, text: str, status: int) -> None:
    node.tool("nvidia-smi", f"printf '%s\\n' {shlex.quote(text)}; exit {status}")


# --- GPUs


def test_settings_and_health_of_a_gpu_are_read(node: Node) -> None:
    gpus(node, "700.00")
    seen = node.read()
    for name, value in (
        ("gpu.power.requested_w", 700.0),
        ("gpu.mig.pending", "Disabled"),
        ("gpu.clocks.sm_mhz", 345),
        ("gpu.pstate", "P0"),
        ("gpu.utilization", 0),
        ("gpu.memory.used_mib", 0),
        ("gpu.recovery_action", "None"),
        ("gpu.remapped.pending", "No"),
        ("gpu.remapped.failure", "No"),
        ("gpu.ecc.uncorrected_volatile", 0),
        ("gpu.fabric.state", "Completed"),
        ("gpu.fabric.status", "Success"),
    ):
        assert seen[name] == {"value": {"gpu0": value}}
    assert seen["gpu.lost"] == {"value": {}}


def test_every_field_is_one_that_a_driver_offers() -> None:
    header = (CAPTURES.parent / "h200" / "query-gpu.csv").read_text().split("\n")[0]
    offered = {name.split(" [")[0] for name in header.split(", ")}
    assert set(FIELDS) <= offered


OLDER = """\
List of valid properties to query for the switch "--query-gpu":

"index"
Zero based index of the GPU. Not "gpu_recovery_action".

{}
"""
"""As --help-query-gpu prints it; a name may have another one beside it."""


@pytest.mark.parametrize("stream", ["", " >&2"])
def test_a_field_that_the_driver_does_not_know_costs_itself_alone(node: Node, stream: str) -> None:
    known = [field for field in FIELDS if field != "gpu_recovery_action"]
    names = "\n".join(f'"{field}" or "other.{field}"\nText.\n' for field in known)
    row = ROW.replace(", None,", ",", 1)
    node.tool(
        "nvidia-smi",
        f"""case "$*" in
        --help-query-gpu) printf '%s\\n' {shlex.quote(OLDER.format(names))} ;;
        *gpu_recovery_action*) echo 'Field "gpu_recovery_action" is not a valid field to query.'{stream}; echo; exit 2 ;;
        *) echo {shlex.quote(row)} ;;
        esac""",  # noqa: E501
    )
    seen = node.read()
    assert seen["gpu.recovery_action"] == {
        "unread": "not available on this driver: gpu_recovery_action"
    }
    assert seen["gpu.count"] == {"value": 1}
    assert seen["gpu.fabric.status"] == {"value": {"gpu1": "Success"}}
    assert seen["gpu.remapped.pending"] == {"value": {"gpu1": "No"}}


def test_a_query_that_stays_wrong_is_unread(node: Node) -> None:
    answers(node, (CAPTURES / "unknown-field.txt").read_text(), 2)
    assert node.read()["gpu.count"]["unread"].startswith("nvidia-smi: exit 2: Field ")


@pytest.mark.parametrize(
    ("line", "address", "said"),
    [
        (
            "Unable to determine the device handle for GPU0: 0000:24:00.0: GPU is lost.  "
            "Reboot the system to recover this GPU",
            "0000:24:00.0",
            "GPU is lost.  Reboot the system to recover this GPU",
        ),
        (
            "Unable to determine the device handle for GPU 0000:AB:00.0: GPU is lost.",
            "0000:ab:00.0",
            "GPU is lost.",
        ),
        (
            "Unable to determine the device handle for gpu 0000:34:00.0: Unknown Error",
            "0000:34:00.0",
            "Unknown Error",
        ),
    ],
)
def test_a_lost_gpu_leaves_the_others_readable(
    node: Node, line: str, address: str, said: str
) -> None:
    row = GPU_ROW.format(index=2, enforced="350.00")
    answers(node, f"{ROW}\n{line}\n{row}", 15)
    seen = node.read()
    assert seen["gpu.count"] == {"value": 2}
    assert seen["gpu.power.enforced_w"] == {"value": {"gpu1": 700.0, "gpu2": 350.0}}
    assert seen["gpu.lost"] == {"value": {address: said}}


def test_a_gpu_without_an_index_is_lost(node: Node) -> None:
    unknown = ", ".join(["[Unknown Error]"] * len(ROW.split(", ")))
    answers(node, f"{ROW}\n{unknown}", 0)
    seen = node.read()
    assert seen["gpu.count"] == {"value": 1}
    assert seen["gpu.lost"] == {"value": {"row 2": "Unknown Error"}}


def test_a_lost_gpu_and_no_other_row_is_unread(node: Node) -> None:
    """550.163.01 stops at the first lost GPU: the others are not counted as gone."""
    answers(node, (CAPTURES / "lost.txt").read_text().strip(), 15)
    assert node.read()["gpu.count"]["unread"].startswith("nvidia-smi: exit 15: Unable to determine")


def test_rows_of_a_failed_query_are_not_trusted(node: Node) -> None:
    answers(node, ROW, 255)
    assert node.read()["gpu.count"]["unread"].startswith("nvidia-smi: exit 255: 1, NVIDIA H200")


@pytest.mark.parametrize(
    "word",
    [
        "[Unknown Error]",
        "[GPU requires reset]",
        "[Insufficient Permissions]",
    ],
)
def test_a_word_in_place_of_a_value_is_unread(node: Node, word: str) -> None:
    answers(node, ROW.replace(", Completed,", f", {word},").replace(", 345,", f", {word},"), 0)
    seen = node.read()
    unread = {"gpu1": {"unread": f"nvidia-smi: fabric.state is {word}"}}
    assert seen["gpu.fabric.state"] == {"value": unread}
    assert seen["gpu.clocks.sm_mhz"]["value"]["gpu1"]["unread"].endswith(word)
    assert seen["gpu.fabric.status"] == {"value": {"gpu1": "Success"}}


@pytest.mark.parametrize("word", gpu.LACKS)
def test_what_a_model_does_not_have_is_a_value(node: Node, word: str) -> None:
    answers(node, ROW.replace(", 59,", f", {word},").replace(", valid,", ", [Unknown Error],"), 0)
    seen = node.read()
    assert seen["gpu.temperature.margin_c"] == {"value": {"gpu1": "not supported"}}
    assert "[Unknown Error]" in seen["gpu.inforom.checksum"]["value"]["gpu1"]["unread"]
    assert seen["gpu.slowdown.active"] == {"value": {"gpu1": 1}}


# --- NVLinks and topology

LINKS = """\
GPU 0: NVIDIA H200 (UUID: GPU-0)
\t Link 0: 26.562 GB/s
\t Link 1: <inactive>
GPU 1: NVIDIA H200 (UUID: GPU-1)
NVML: Unable to retrieve NVLink information as all links are inActive
"""
LINK_ERRORS = """\
GPU 0: NVIDIA H200 (UUID: GPU-0)
\t Link 0: Replay Errors: 1
\t Link 0: Recovery Errors: 0
\t Link 0: CRC Flit Errors: 5

\t Link 1: Replay Errors: 2
\t Link 1: CRC Data Errors: 7
GPU 1: NVIDIA L40S (UUID: GPU-1)
"""
TOPOLOGY = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tPIX\t0-47\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tSYS\t48-95\t1\t\tN/A\n"
    "NIC0\tPIX\tSYS\t X \t\t\t\t\n\n"
    "Legend:\n\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
)


def test_links_their_errors_and_the_topology_are_read(node: Node) -> None:
    node.tool(
        "nvidia-smi",
        f"""case "$*" in
        "nvlink -s") printf '%s' {shlex.quote(LINKS)} ;;
        "nvlink -e") printf '%s' {shlex.quote(LINK_ERRORS)} ;;
        "topo -m") printf '%s' {shlex.quote(TOPOLOGY)} ;;
        esac""",
    )
    seen = node.read()
    links = {"gpu0": {"0": "26.562 GB/s", "1": "<inactive>"}, "gpu1": {}}
    assert seen["gpu.nvlink.links"] == {"value": links}
    assert seen["gpu.nvlink.replay"] == {"value": {"gpu0": 3, "gpu1": "not supported"}}
    assert seen["gpu.nvlink.recovery"] == {"value": {"gpu0": 0, "gpu1": "not supported"}}
    assert seen["gpu.nvlink.crc"] == {"value": {"gpu0": 12, "gpu1": "not supported"}}
    assert seen["gpu.topology"] == {
        "value": {"gpu0 gpu1": "NV18", "gpu0 mlx5_0": "PIX", "gpu1 mlx5_0": "SYS"}
    }


def test_an_answer_without_a_matrix_is_no_topology(node: Node) -> None:
    node.tool("nvidia-smi", "echo Failed to run topology matrix")
    assert node.read()["gpu.topology"] == {"unread": "nvidia-smi topo -m printed no matrix"}


# --- PCI bus

ROOT_PORT, UP, DOWN, GPU = "0000:15:01.0", "0000:16:00.0", "0000:17:00.0", "0000:1b:00.0"


def config(node: Node, address: str, *capabilities: tuple[int, int]) -> None:
    """Write a configuration space with these extended capabilities: number, word at its +6."""
    space = bytearray(4096)
    for index, (number, word) in enumerate(capabilities):
        at = 0x100 + 0x20 * index
        following = at + 0x20 if index < len(capabilities) - 1 else 0
        struct.pack_into("<I", space, at, number | 1 << 16 | following << 20)
        struct.pack_into("<H", space, at + 6, word)
    folder = node.root / "sys/bus/pci/devices" / address
    (folder / "config").write_bytes(space)


def pci(node: Node, *path: str, files: dict[str, str]) -> None:
    """Write a device below its bridges, and its link on the bus."""
    below = "/sys/devices/pci0000:15/" + "/".join(path)
    for name, text in files.items():
        node.file(f"{below}/{name}", text + "\n")
    bus = node.root / "sys/bus/pci/devices"
    bus.mkdir(parents=True, exist_ok=True)
    (bus / path[-1]).symlink_to(node.root / below.lstrip("/"))


def links(width: str, speed: str) -> dict[str, str]:
    most = {"max_link_width": "16", "max_link_speed": "32.0 GT/s PCIe"}
    return {"current_link_width": width, "current_link_speed": speed, **most}


def test_a_gpu_is_read_with_the_bridges_above_it(node: Node) -> None:
    bridge = {"vendor": "0x15b3", "class": "0x060400"}
    full, slow = links("16", "32.0 GT/s PCIe"), links("8", "16.0 GT/s PCIe")
    counted = {"aer_dev_correctable": "RxErr 1\nTOTAL_ERR_COR 7"}
    gpu = {
        "vendor": "0x10de",
        "class": "0x030200",
        "device": "0x2335",
        "numa_node": "0",
        "resource": "0x0 0xffffff 0x14220c\n0x1000000000 0x4fffffffff 0x14220c\n0x0 0x0 0x0",
        "aer_dev_fatal": "Undefined 0\nTOTAL_ERR_FATAL 2",
    }
    pci(node, ROOT_PORT, files={**bridge, **full, **counted})
    pci(node, ROOT_PORT, UP, files={**bridge, **slow})
    pci(node, ROOT_PORT, UP, DOWN, files={**bridge, **full})
    pci(node, ROOT_PORT, UP, DOWN, GPU, files=gpu)
    node.file(f"/sys/bus/pci/devices/{GPU}/iommu_group/type", "identity\n")
    config(node, DOWN, (0x01, 0), (0x0D, 0x1D))
    seen = {name: entry.get("value") for name, entry in node.read().items()}
    assert seen["gpu.pci.boards"] == {GPU: "0x2335"}
    assert seen["gpu.pci.bar_mib"] == {GPU: 262144}
    assert seen["gpu.pci.numa_node"] == {GPU: 0}
    assert seen["gpu.pci.iommu"] == {GPU: "identity"}
    assert (seen["gpu.pci.width"], seen["gpu.pci.width_max"]) == ({UP: 8.0}, {UP: 16.0})
    assert (seen["gpu.pci.speed"], seen["gpu.pci.speed_max"]) == ({UP: 16.0}, {UP: 32.0})
    assert seen["gpu.pci.redirects"] == {DOWN: True}
    assert seen["gpu.pci.correctable"] == {ROOT_PORT: 7}
    assert (seen["gpu.pci.nonfatal"], seen["gpu.pci.fatal"]) == ({}, {GPU: 2})


def test_the_slot_of_a_gpu_is_read_but_not_in_a_virtual_machine(node: Node) -> None:
    port = {"vendor": "0x15b3", "class": "0x060400", **links("8", "32.0 GT/s PCIe")}
    pci(node, ROOT_PORT, files={**port, "max_link_width": "8"})
    pci(node, ROOT_PORT, GPU, files={"vendor": "0x10de", "class": "0x030200", "device": "0x2335"})
    assert node.read()["gpu.pci.slot_width"] == {"value": {GPU: 8.0}}
    node.file("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme de hypervisor lahf_lm\n")
    assert node.read()["gpu.pci.slot_width"] == {"value": {}}


@pytest.mark.parametrize(
    ("capabilities", "redirects"),
    [
        ([(0x0D, 0x00)], False),
        ([(0x0D, 0x01)], False),  # checks sources, and sends nothing another way
        ([(0x0D, 0x04)], True),
        ([(0x01, 0x1D)], False),
        ([], False),
    ],
)
def test_a_switch_redirects_by_three_bits_of_acs(
    node: Node, capabilities: list[tuple[int, int]], redirects: bool
) -> None:
    pci(node, DOWN, files={"vendor": "0x15b3"})
    config(node, DOWN, *capabilities)
    assert redirected(DOWN) is redirects


def test_a_configuration_space_that_ends_early_is_unread(node: Node) -> None:
    pci(node, DOWN, files={"config": "x" * 63})
    with pytest.raises(reading.Unread, match="only 64 bytes are readable; root"):
        redirected(DOWN)


# --- driver

OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.163.01  Release Build  "
    "(dvs-builder@x)  Tue Apr  8 12:41:17 UTC 2025\nGCC version:  gcc version 12.2.0 (Debian)\n"
)
CLOSED = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025\n"
    "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"
)


@pytest.mark.parametrize(("text", "flavour"), [(OPEN, "open"), (CLOSED, "proprietary")])
def test_the_loaded_module_says_version_and_flavour(node: Node, text: str, flavour: str) -> None:
    node.file("/proc/driver/nvidia/version", text)
    assert node.read()["driver.module"] == {"value": {"version": "550.163.01", "flavour": flavour}}


def test_a_module_without_its_file_in_proc_says_its_version(node: Node) -> None:
    absent = "/sys/module/nvidia/version: no such file, so the kernel module is not loaded"
    assert node.read()["driver.module"] == {"unread": absent}
    node.file("/sys/module/nvidia/version", "550.163.01\n")
    assert node.read()["driver.module"] == {
        "value": {
            "version": "550.163.01",
            "flavour": {"unread": "/proc/driver/nvidia/version: no such file"},
        }
    }
    node.file("/proc/driver/nvidia/version", "something else\n")
    assert "no driver version" in node.read()["driver.module"]["unread"]


def test_the_driver_says_parameters_and_helpers(node: Node) -> None:
    seen = node.read()
    assert seen["driver.parameters"] == {"unread": "/proc/driver/nvidia/params: no such file"}
    assert seen["driver.helpers"] == {"value": []}
    node.file("/proc/driver/nvidia/params", 'EnableMSI: 1\nRegistryDwords: "a=1;b=2"\n')
    node.file("/sys/module/nvidia_peermem/refcnt", "0\n")
    node.file("/sys/module/gdrdrv/refcnt", "0\n")
    seen = node.read()
    assert seen["driver.parameters"] == {"value": {"EnableMSI": "1", "RegistryDwords": "a=1;b=2"}}
    assert seen["driver.helpers"] == {"value": ["gdrdrv", "nvidia_peermem"]}
    assert seen["driver.loaded"] == {"value": ["gdrdrv", "nvidia_peermem"]}
    node.file("/proc/driver/nvidia/version", OPEN)
    assert node.read()["driver.loaded"] == {"value": ["gdrdrv", "nvidia", "nvidia_peermem"]}


NOT_FOUND = "echo 'modinfo: ERROR: Module '$5' not found.' >&2; exit 1"


@pytest.mark.parametrize("name", ["nvidia", "nvidia-current"])
@pytest.mark.parametrize(
    ("licence", "flavour"),
    [
        ("Dual MIT/GPL", "open"),
        ("NVIDIA", "proprietary"),
        ("GPL", {"unread": "modinfo: license is 'GPL', expected NVIDIA or Dual MIT/GPL"}),
    ],
)
def test_the_module_on_disk_is_asked_by_both_names(
    node: Node, name: str, licence: str, flavour: object
) -> None:
    node.tool(
        "modinfo",
        f"""case "$5 $4" in
        "{name} version") echo 550.163.01 ;;
        "{name} license") echo "{licence}" ;;
        *) {NOT_FOUND} ;;
        esac""",
    )
    assert node.read()["driver.module_on_disk"] == {
        "value": {"version": "550.163.01", "flavour": flavour}
    }


def test_of_debians_two_modules_the_proprietary_one_is_loaded(node: Node) -> None:
    node.tool(
        "modinfo",
        f"""case "$5 $4" in
        "nvidia-current version"|"nvidia-current-open version") echo 550.163.01 ;;
        "nvidia-current license") echo NVIDIA ;;
        "nvidia-current-open license") echo Dual MIT/GPL ;;
        *) {NOT_FOUND} ;;
        esac""",
    )
    module = node.read()["driver.module_on_disk"]["value"]
    assert module == {"version": "550.163.01", "flavour": "proprietary"}


def test_a_module_that_the_kernel_does_not_have_is_absent(node: Node) -> None:
    node.tool("modinfo", NOT_FOUND)
    assert node.read()["driver.module_on_disk"] == {
        "value": {"version": "absent", "flavour": "absent"}
    }
    node.tool("modinfo", "echo 'modinfo: ERROR: could not get modinfo: Bad message' >&2; exit 1")
    assert node.read()["driver.module_on_disk"]["unread"].startswith("modinfo: exit 1: ")


def test_the_module_of_the_kernel_that_boots_next_is_read(node: Node) -> None:
    assert "grub.cfg" in node.read()["driver.module_next"]["unread"]
    menu = "menuentry {\n\tlinux\t/vmlinuz-6.12.117+deb13-amd64 ro\n\tlinux /vmlinuz-6.12.94\n}\n"
    node.file("/boot/grub/grub.cfg", menu)
    node.tool(
        "modinfo",
        """case "$2 $5 $4" in
        "6.12.117+deb13-amd64 nvidia version") echo 550.163.01 ;;
        "6.12.117+deb13-amd64 nvidia license") echo NVIDIA ;;
        *) echo "modinfo: ERROR: Module $3 not found." >&2; exit 1 ;;
        esac""",
    )
    assert node.read()["driver.module_next"] == {
        "value": {
            "kernel": "6.12.117+deb13-amd64",
            "version": "550.163.01",
            "flavour": "proprietary",
        }
    }


def test_the_kernels_that_count_are_read_with_headers_and_module(node: Node) -> None:
    running = os.uname().release
    menu = "menuentry a {\n linux /vmlinuz-6.12.117\n}\nmenuentry b {\n linux /vmlinuz-6.12.94\n}\n"
    node.file("/boot/grub/grub.cfg", menu)
    node.file("/lib/modules/6.12.94/build/Makefile", "")
    node.tool("modinfo", f'[ "$2" = 6.12.94 ] || {{ {NOT_FOUND}; }}; echo NVIDIA')
    seen = node.read()
    assert seen["kernel.next"] == {"value": "6.12.117"}
    absent = {"version": "absent", "flavour": "absent", "headers": False}
    assert seen["driver.kernels"]["value"] == {
        running: {**absent, "running": True, "in_menu": False},
        "6.12.117": {**absent, "running": False, "in_menu": True},
        "6.12.94": {
            "version": "NVIDIA",
            "flavour": "proprietary",
            "headers": True,
            "running": False,
            "in_menu": True,
        },
    }


def test_the_kernel_that_boots_next_is_the_default_and_not_the_first(node: Node) -> None:
    menu = (
        'set default="${saved_entry}"\n'
        "menuentry 'new' {\n\tlinux\t/vmlinuz-6.12.117 ro\n}\n"
        "menuentry 'old' {\n\tlinux\t/vmlinuz-6.12.94 ro\n}\n"
    )
    node.file("/boot/grub/grub.cfg", menu)
    node.file("/boot/grub/grubenv", "# GRUB Environment Block\nsaved_entry=old\n###")
    node.tool("modinfo", 'echo "modinfo: ERROR: Module $5 not found." >&2; exit 1')
    assert node.read()["driver.module_next"]["value"]["kernel"] == "6.12.94"
    node.file("/boot/grub/grubenv", "# GRUB Environment Block\nsaved_entry=gone\n###")
    assert "GRUB's default is not an entry" in node.read()["driver.module_next"]["unread"]


def library(node: Node, folder: str, version: str) -> None:
    node.file(f"{folder}/libnvidia-ml.so.{version}", "")
    link = node.root / folder.lstrip("/") / "libnvidia-ml.so.1"
    link.symlink_to(f"libnvidia-ml.so.{version}")


def test_the_library_is_the_file_that_the_loader_takes(node: Node) -> None:
    unread = node.read()["driver.library"]["unread"]
    assert unread.startswith("libnvidia-ml.so.1 is neither in the ldconfig cache nor in ")
    library(node, "/usr/lib/x86_64-linux-gnu", "550.163.01")
    assert node.read()["driver.library"] == {"value": "550.163.01"}
    library(node, "/usr/lib/i386-linux-gnu", "535.1")
    library(node, "/opt/run", "590.48.01")
    node.tool(
        "ldconfig",
        "printf '2 libs found\\n"
        "\\tlibnvidia-ml.so.1 (libc6) => /usr/lib/i386-linux-gnu/libnvidia-ml.so.1\\n"
        "\\tlibnvidia-ml.so.1 (libc6,x86-64) => /opt/run/libnvidia-ml.so.1\\n"
        "\\tlibnvidia-ml.so (libc6,x86-64) => /usr/lib/libnvidia-ml.so\\n'",
    )
    assert node.read()["driver.library"] == {"value": "590.48.01"}


def test_debians_library_is_found_below_its_own_folder(node: Node) -> None:
    library(node, "/usr/lib/x86_64-linux-gnu/nvidia/current", "550.163.01")
    assert node.read()["driver.library"] == {"value": "550.163.01"}


def test_a_library_without_a_version_in_its_name_is_unread(node: Node) -> None:
    node.file("/usr/lib64/libnvidia-ml.so.1", "")
    assert node.read()["driver.library"] == {
        "unread": "/usr/lib64/libnvidia-ml.so.1 resolves to libnvidia-ml.so.1, "
        "whose name contains no version"
    }


# --- Xid

JOURNAL = """\
1740327859.5 n1 kernel: NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi, Timeout
1740327858.25 n1 kernel: NVRM: Xid (PCI:0000:9B:00): 31, pid=7, name=python
1740327860.0 n1 kernel: NVRM: Xid (PCI:0000:c2:00 GPU-I:05): 43, pid=9
1740327861.0 n1 kernel: NVRM: Xid (0000:03:00): 79, GPU has fallen off the bus.
1740327862.0 n1 kernel: nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 x
1740327863.0 n1 kernel: nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM
-- Boot 1234 --
"""


def test_errors_of_this_boot_are_read_by_address_in_their_order(node: Node) -> None:
    node.tool(
        "journalctl",
        f"""[ "$1$2" = -k-b ] || exit 9
        for last; do :; done; [ "$last" = "NVRM: Xid|SXid" ] || exit 8
        printf '%s' {shlex.quote(JOURNAL)}""",
    )
    seen = node.read()
    assert seen["driver.xid"] == {
        "value": {"0000:03:00": [79], "0000:9b:00": [31, 119], "0000:c2:00": [43]}
    }
    assert seen["driver.sxid"] == {"value": {"0000:05:00.0": ["12028 Non-fatal", "20034 Fatal"]}}


def test_of_a_storm_the_last_ones_are_kept(node: Node) -> None:
    lines = [f"{n}.0 n1 kernel: NVRM: Xid (PCI:0000:9b:00): {n}, pid=1" for n in range(1, 100)]
    node.tool("journalctl", f"printf '%s\\n' {shlex.quote(chr(10).join(lines))}")
    assert node.read()["driver.xid"]["value"]["0000:9b:00"] == list(range(50, 100))


@pytest.mark.parametrize(
    ("script", "reading"),
    [
        ("echo '-- No entries --'; exit 1", {"value": {}}),
        ("exit 0", {"value": {}}),
        (
            "echo 'No journal files were found.' >&2; exit 1",
            {"unread": "journalctl: exit 1: No journal files were found."},
        ),
        ("echo boom >&2; exit 3", {"unread": "journalctl: exit 3: boom"}),
    ],
)
def test_no_error_is_an_answer_and_no_journal_is_none(
    node: Node, script: str, reading: dict[str, object]
) -> None:
    node.tool("journalctl", script)
    assert node.read()["driver.xid"] == reading


# --- MIG devices


def lists(node: Node, text: str, status: int = 0) -> None:
    """Let ``nvidia-smi -L`` answer."""
    node.tool(
        "nvidia-smi", f"[ $1 = -L ] || exit 9; printf '%s' {shlex.quote(text)}; exit {status}"
    )


def test_mig_devices_are_read_gpu_by_gpu(node: Node) -> None:
    lists(node, (CAPTURES / "h200-mig-L.txt").read_text())
    assert node.read()["gpu.mig.devices"] == {
        "value": {"gpu0": ["1c.3g.71gb", "2c.3g.71gb", "2g.35gb"], "gpu1": []}
    }


def test_a_profile_with_media_extensions_is_another_one(node: Node) -> None:
    text = (CAPTURES / "h200-mig-L.txt").read_text().replace("2g.35gb    ", "1g.18gb+me ")
    lists(node, text)
    assert node.read()["gpu.mig.devices"]["value"]["gpu0"][0] == "1c.3g.71gb"
    assert "1g.18gb+me" in node.read()["gpu.mig.devices"]["value"]["gpu0"]


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        ("", 9, "nvidia-smi: exit 9: no message"),
        ("GPU 0: NVIDIA H200 (UUID: GPU-1)\n", 9, "nvidia-smi: exit 9: GPU 0: NVIDIA H200"),
        ("GPU 0: NVIDIA H200 (UUID: GPU-1)\n  MIG what\n", 0, "nvidia-smi -L printed an"),
        ("  MIG 3g.71gb     Device  0: (UUID: MIG-1)\n", 0, "nvidia-smi -L printed an"),
    ],
)
def test_a_list_of_gpus_in_another_form_is_unread(
    node: Node, text: str, status: int, reason: str
) -> None:
    lists(node, text, status)
    assert node.read()["gpu.mig.devices"]["unread"].startswith(reason)


def test_a_lost_gpu_leaves_the_devices_of_the_others_readable(node: Node) -> None:
    lost = "Unable to determine the device handle for gpu 0000:34:00.0: GPU is lost.\n"
    lists(node, (CAPTURES / "h200-mig-L.txt").read_text() + lost, 15)
    assert node.read()["gpu.mig.devices"]["value"]["gpu1"] == []
