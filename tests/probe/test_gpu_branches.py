"""What nvidia-smi of the branches 418 to 610 prints, read as one.

The texts of 418 to 555 are those of the real programs, over a library that returned the errors of
nvml.h for one of three GPUs. Those of newer branches come from public recordings, which each test
names.
"""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from lockstep.node.readers import collect, gpu_fields
from lockstep.node.readers.gpu_lost import unreachable
from lockstep.node.readers.gpu_nvlink import link_errors
from lockstep.node.readers.reading import NOT_AVAILABLE
from tests.probe.test_collect import GPU_ROW, Node, node

__all__ = ["node"]

FIELDS = [*(field for _, field, _ in gpu_fields.EVERY), *gpu_fields.SENSORS]
LATE = (
    *("gpu_recovery_action", "inforom.checksum_validation"),
    *(field for field in FIELDS if field.startswith(("remapped_rows.", gpu_fields.COUNTERS))),
    *("ecc.errors.uncorrected.aggregate.sram.thresholdExceeded", "fabric.health.summary"),
)
"""Fields that ``--help-query-gpu`` of 535, 550 and 555 does not list."""
LATER = (
    *LATE,
    *("fabric.clusterUuid", "fabric.cliqueId"),
    *("fabric.state", "fabric.status", "gsp.mode.current", "gsp.mode.default", "addressing_mode"),
    *("protected_memory.total", "clocks_event_reasons.active", "temperature.gpu.tlimit"),
)
"""The same for 450, 460 and 470."""
LAST = (*LATER, "mig.mode.current", "mig.mode.pending")
"""The same for 418."""
LACKING = {418: LAST, 450: LATER, 470: LATER, 535: LATE, 550: LATE}


def printed(index: int, branch: int, **values: str) -> str:
    """Return the row of a GPU as a branch prints it, without the fields that it lacks."""
    row = dict(zip(["index", *FIELDS], GPU_ROW.split(", "), strict=True))
    row |= {"fabric.state": "state  Completed", "fabric.status": "status Success"}
    row |= {name.replace("__", "."): value for name, value in values.items()}
    lacking = {*LACKING[branch]} - {"clocks_event_reasons.active"}
    kept = [text for field, text in row.items() if field not in lacking]
    return ", ".join(kept).format(index=index, enforced="700.00")


def smi(node: Node, branch: int, rows: str, status: int = 0, **others: str) -> None:
    """Install the nvidia-smi of a branch; ``others`` are its answers to other commands."""
    offered = [field for field in FIELDS if field not in LACKING[branch]]
    offered += ["clocks_throttle_reasons.active"]
    node.file(
        "/proc/driver/nvidia/version",
        f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {branch}.163.01  Tue Apr  8\n",
    )
    remapped = others.get("remapped", "")
    nvlink = others.get("nvlink", "")
    node.tool(
        "nvidia-smi",
        f"""case "$*" in
        --help-query-gpu) printf '"%s"\\n' {" ".join(offered)} ;;
        --query-remapped-rows=*) printf '%s' {shlex.quote(remapped)} ;;
        --query-gpu=*) printf '%s\\n' {shlex.quote(rows)}; exit {status} ;;
        -L) printf '%s' {shlex.quote(others.get("listed", ""))} ;;
        nvlink*) printf '%s' {shlex.quote(nvlink)} ;;
        esac""",
    )


def values(node: Node) -> dict[str, Any]:
    return {name: one.get("value", one.get("unread")) for name, one in node.read().items()}


# --- fields


@pytest.mark.parametrize("branch", [450, 470, 535, 550])
def test_what_a_branch_does_not_offer_is_not_available(node: Node, branch: int) -> None:
    smi(node, branch, printed(0, branch), remapped="GPU-0, 0, 0, 0\n")
    seen = values(node)
    assert seen["gpu.count"] == 1
    absent = {
        field for name, field, _ in gpu_fields.EVERY if seen[name] == f"{NOT_AVAILABLE}: {field}"
    }
    elsewhere = {"clocks_event_reasons.active", *gpu_fields.REMAPPED}
    assert absent == {*LACKING[branch]} - elsewhere
    assert seen["gpu.slowdown.active"] == {"gpu0": 1}


def test_old_branches_are_asked_for_their_fields_first(node: Node) -> None:
    smi(node, 550, printed(0, 550), remapped="GPU-0, 0, 0, 0\n")
    asked = [one["argv"][1].partition("=")[0] for one in commands_of(node)]
    assert asked[:3] == ["--help-query-gpu", "--query-gpu", "--query-remapped-rows"]


def commands_of(node: Node) -> list[dict[str, Any]]:
    ran = collect.collect({}, only=frozenset({"gpu.count"}))["commands"]
    return [one for one in ran if one["argv"][0] == "nvidia-smi"]


@pytest.mark.parametrize("branch", [535, 550])
def test_the_fabric_is_read_without_the_names_before_its_values(node: Node, branch: int) -> None:
    smi(node, branch, printed(0, branch))
    seen = values(node)
    assert seen["gpu.fabric.state"] == {"gpu0": "Completed"}
    assert seen["gpu.fabric.status"] == {"gpu0": "Success"}


def test_a_fabric_that_a_model_lacks_is_not_supported(node: Node) -> None:
    smi(node, 550, printed(0, 550, fabric__state="state  N/A"))
    assert values(node)["gpu.fabric.state"] == {"gpu0": "not supported"}


def test_remapped_rows_are_read_by_their_own_query(node: Node) -> None:
    rows = f"{printed(0, 470)}\n{printed(1, 470)}\n{printed(2, 470)}"
    answer = "GPU-0, 0, 0, 0\nGPU-1, 1, 0, 1\n"
    smi(node, 470, rows, remapped=answer)
    seen = values(node)  # numbers, as all branches from 450 to 555 print them
    assert seen["gpu.remapped.pending"]["gpu1"] == "Yes"
    assert seen["gpu.remapped.failure"]["gpu1"] == "No"
    assert seen["gpu.remapped.uncorrectable"] == {
        "gpu0": 0,
        "gpu1": 1,
        "gpu2": {"unread": "nvidia-smi: exit 0: GPU-0, 0, 0, 0"},
    }
    assert seen["gpu.remapped.banks_without_spare"].startswith(NOT_AVAILABLE)


def test_a_model_that_remaps_no_rows_says_so_in_that_query(node: Node) -> None:
    smi(node, 550, printed(0, 550), remapped="GPU-0, [N/A], [N/A], [N/A]\n")
    assert values(node)["gpu.remapped.pending"] == {"gpu0": "not supported"}


def test_418_does_not_have_that_query(node: Node) -> None:
    node.file("/proc/driver/nvidia/version", "NVIDIA UNIX x86_64 Kernel Module  418.226.00  Fri\n")
    offered = [field for field in FIELDS if field not in LAST]
    node.tool(
        "nvidia-smi",
        f"""case "$*" in
        --help-query-gpu) printf '"%s"\\n' {" ".join(offered)} clocks_throttle_reasons.active ;;
        --query-gpu=*) echo {shlex.quote(printed(0, 418))} ;;
        *) echo "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help."
           echo; exit 2 ;;
        esac""",
    )
    seen = values(node)
    for name in ("pending", "failure", "uncorrectable", "banks_without_spare"):
        assert seen[f"gpu.remapped.{name}"].startswith(NOT_AVAILABLE)
    assert seen["gpu.mig.current"] == f"{NOT_AVAILABLE}: mig.mode.current"


def test_a_failure_of_that_query_costs_only_its_readings(node: Node) -> None:
    node.file("/proc/driver/nvidia/version", "NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue\n")
    offered = [field for field in FIELDS if field not in LATE]
    node.tool(
        "nvidia-smi",
        f"""case "$*" in
        --help-query-gpu) printf '"%s"\\n' {" ".join(offered)} ;;
        --query-gpu=*) echo {shlex.quote(printed(0, 550))} ;;
        *) echo "Unknown Error" >&2; exit 255 ;;
        esac""",
    )
    seen = values(node)
    assert seen["gpu.count"] == 1
    assert seen["gpu.remapped.pending"] == {
        "gpu0": {"unread": "nvidia-smi: exit 255: Unknown Error"}
    }


@pytest.mark.parametrize("branch", LACKING)
def test_a_comma_in_a_name_is_part_of_the_name(node: Node, branch: int) -> None:
    smi(node, branch, printed(0, branch, name="NVIDIA, Big, GPU"))
    seen = values(node)
    assert seen["gpu.name"] == {"gpu0": "NVIDIA, Big, GPU"}
    assert seen["gpu.uuid"] == {"gpu0": "GPU-0"}
    assert seen["gpu.pcie.width_max"] == {"gpu0": 16}


# --- lost GPUs


def sick(index: int, branch: int, error: str, *kept: str) -> str:
    """Return the row of a GPU that answers an error for every field but the given ones."""
    fields = ["index", *(field for field in FIELDS if field not in {*LACKING[branch]})]
    fields += ["x"] * (len(printed(0, branch).split(", ")) - len(fields))
    row = printed(index, branch).split(", ")
    return ", ".join(
        text if field in kept else f"[{error}]" for field, text in zip(fields, row, strict=True)
    )


STILL = ("index", "name", "pci.bus_id")
"""What a lost GPU still shows on 418 to 535."""


@pytest.mark.parametrize("branch", LACKING)
@pytest.mark.parametrize("error", ["GPU is lost", "Unknown Error"])
@pytest.mark.parametrize("kept", [STILL, ("index", "name")])
def test_a_row_of_errors_is_a_lost_gpu(
    node: Node, branch: int, error: str, kept: tuple[str, ...]
) -> None:
    rows = "\n".join([printed(0, branch), sick(1, branch, error, *kept), printed(2, branch)])
    smi(node, branch, rows)
    seen = values(node)
    assert seen["gpu.lost"] == {"gpu1": error}
    assert seen["gpu.count"] == 2
    assert seen["gpu.power.enforced_w"] == {"gpu0": 700.0, "gpu2": 700.0}


def test_a_lost_gpu_without_its_index_is_named_by_its_address(node: Node) -> None:
    rows = "\n".join([printed(0, 470), sick(1, 470, "GPU is lost", "name", "pci.bus_id")])
    smi(node, 470, rows)
    assert values(node)["gpu.lost"] == {"00000000:83:00.0": "GPU is lost"}


def test_some_unknown_errors_are_no_lost_gpu(node: Node) -> None:
    asked = ("pstate", "serial", "inforom.img", "compute_mode", "memory.used", "fabric.state")
    errors = {name.replace(".", "__"): "[Unknown Error]" for name in asked}
    smi(node, 550, printed(0, 550, **errors))
    seen = values(node)
    assert seen["gpu.lost"] == {}
    assert seen["gpu.pstate"] == {"gpu0": {"unread": "nvidia-smi: pstate is [Unknown Error]"}}


@pytest.mark.parametrize("branch", LACKING)
def test_a_gpu_that_requires_a_reset_asks_for_it(node: Node, branch: int) -> None:
    rows = "\n".join(
        [
            printed(0, branch),
            sick(1, branch, "GPU requires reset", *STILL, "uuid"),
        ]
    )
    smi(node, branch, rows)
    seen = values(node)
    assert seen["gpu.lost"] == {}
    assert seen["gpu.count"] == 2
    assert seen["gpu.uuid"] == {"gpu0": "GPU-0", "gpu1": "GPU-1"}
    why = {"unread": f"{NOT_AVAILABLE}: gpu_recovery_action"}
    assert seen["gpu.recovery_action"] == {"gpu0": why, "gpu1": "Reset"}


MESSAGE = "Unable to determine the device handle for "
RESET = "A GPU reset must occur before this GPU can be used again."


@pytest.mark.parametrize(
    ("line", "found"),
    [
        # 418 to 470
        (f"{MESSAGE}GPU 1: GPU is lost.  Reboot it", ("gpu1", "GPU is lost.  Reboot it")),
        # 535 to 555
        (f"{MESSAGE}GPU1: Unknown Error", ("gpu1", "Unknown Error")),
        (f"{MESSAGE}GPU1: {RESET}", ("gpu1", RESET)),
        # -L of all of them
        (f"{MESSAGE}gpu 1: GPU is lost.", ("gpu1", "GPU is lost.")),
        # newer branches, from public issues (tests/captures/nvidia_smi)
        (f"{MESSAGE}GPU0: 0000:24:00.0: GPU is lost.", ("0000:24:00.0", "GPU is lost.")),
        (f"{MESSAGE}GPU 0000:AB:00.0: GPU is lost.", ("0000:ab:00.0", "GPU is lost.")),
        ("GPU 1: NVIDIA H200 (UUID: GPU is lost)", None),
        ("WARNING: infoROM is corrupted at gpu 0000:10:00.0", None),
        ("0, NVIDIA H200, GPU-00000000, 00000000:10:00.0", None),
    ],
)  # fmt: skip
def test_the_messages_of_all_branches_name_the_lost_gpu(
    line: str, found: tuple[str, str] | None
) -> None:
    assert unreachable(line) == found


@pytest.mark.parametrize(
    ("message", "status"),
    [("GPU is lost.  Reboot the system to recover this GPU\n\n", 15), ("Unknown Error", 255),
     (f"{RESET}\n\n.", 255), (f"{RESET}\n\n.", 231), ("Unknown Error", 14)],
)  # fmt: skip
def test_a_program_that_stops_at_the_lost_gpu_names_it(
    node: Node, message: str, status: int
) -> None:
    smi(node, 550, f"{MESSAGE}GPU1: {message}", status)
    seen = values(node)
    assert seen["gpu.lost"] == {"gpu1": message.splitlines()[0]}
    if status != 14:
        reason = f"nvidia-smi: exit {status}: {MESSAGE}GPU1: {message.splitlines()[0]}"
        assert seen["gpu.count"] == seen["gpu.uuid"] == reason


def test_no_gpu_left_is_a_count(node: Node) -> None:
    smi(node, 550, "No devices were found", 6)
    seen = values(node)
    assert (seen["gpu.count"], seen["gpu.lost"]) == (0, {"all": "No devices were found"})
    smi(node, 550, "something else", 6)
    assert values(node)["gpu.count"] == "nvidia-smi: exit 6: something else"


@pytest.mark.parametrize("place", ["0000:A3:00.0", "1"])
def test_a_corrupted_inforom_names_its_gpu_and_no_row(node: Node, place: str) -> None:
    bad = printed(1, 550).replace("00000000:83:00.0", "00000000:A3:00.0")
    warning = f"WARNING: infoROM is corrupted at gpu {place}"
    smi(node, 550, f"{printed(0, 550)}\n{bad}\n{warning}", 14)
    seen = values(node)
    assert seen["gpu.count"] == 2
    assert seen["gpu.inforom.checksum"] == {
        "gpu0": {"unread": f"{NOT_AVAILABLE}: inforom.checksum_validation"},
        "gpu1": "corrupted",
    }


def test_a_list_shows_a_lost_gpu_without_its_uuid(node: Node) -> None:
    listed = (
        "GPU 0: NVIDIA H200 (UUID: GPU-0)\n"
        "GPU 1: NVIDIA H200 (UUID: GPU is lost)\n"
        f"{MESSAGE}gpu 2: {RESET}\n\n.\n"
    )
    smi(node, 550, printed(0, 550), listed=listed)
    assert values(node)["gpu.mig.devices"] == {"gpu0": []}
    smi(node, 550, printed(0, 550), listed="No devices found.\n")
    assert values(node)["gpu.mig.devices"] == {}


# --- NVLinks

HEAD = "GPU 0: NVIDIA H200 (UUID: GPU-0)\n"
NVLINK_418 = (
    "\t Link 0: 1 replay errors\n\t Link 0: 2 recovery errors\n"
    "\t Link 0: 3 flit CRC errors\n\t Link 0: 4 data CRC errors\n\n"
)
NVLINK_550 = (
    "\t Link 0: Replay Errors: 1\n\t Link 0: Recovery Errors: 2\n\t Link 0: CRC Errors: 7\n\n"
)
COUNTERS_595 = """\
Tx packets: 1234567
Malformed packet Errors: 1
Buffer overrun Errors: 2
Rx Errors: 4
Rx remote Errors: 8
Rx General Errors: 16
Local link integrity Errors: 32
Tx discards: 64
Link recovery successful events: 5
Link recovery failed events: 1
Total link recovery events: 6
Effective Errors: 3
Effective BER: 15e-255
FEC Errors - 0: 36140749276
FEC Errors - 1: 2
Symbol Errors: 2
Symbol BER: 15e-255
Raw BER Lane 0: 2061
Raw Errors Lane 0: 82
PLR Xmit Blocks: 1234567890
"""
"""Counters of a B300 with driver 595.91.07, named in a public description of that machine and in
the test of a public health check."""
NVLINK_595 = "".join(f"\t Link 0: {line}\n" for line in COUNTERS_595.splitlines())


@pytest.mark.parametrize(
    ("lines", "errors"),
    [
        (NVLINK_418, {"replay": 1, "recovery": 2, "crc": 7}),
        (NVLINK_550, {"replay": 1, "recovery": 2, "crc": 7}),
        ("\t Link 0: CRC Errors: N/A\n", {}),
        (NVLINK_595, {"packet": 127, "recovery": 6, "symbol": 5}),
        (NVLINK_595 + NVLINK_595.replace("Link 0", "Link 1"),
         {"packet": 254, "recovery": 12, "symbol": 10}),
    ],
)  # fmt: skip
def test_the_counters_of_each_branch_are_summed(lines: str, errors: dict[str, int]) -> None:
    assert link_errors(lines) == errors


def test_counters_that_a_branch_does_not_print_are_not_available(node: Node) -> None:
    """450 to 470 print nothing, as do 535 to 555 where no GPU has links."""
    smi(node, 470, printed(0, 470), nvlink="")
    seen = values(node)
    assert seen["gpu.nvlink.links"] == {}
    for kind in ("replay", "recovery", "crc", "packet", "symbol"):
        assert seen[f"gpu.nvlink.{kind}"].startswith(NOT_AVAILABLE)
    smi(node, 470, printed(0, 470), nvlink=HEAD + NVLINK_418)
    assert values(node)["gpu.nvlink.crc"] == {"gpu0": 7}
    assert values(node)["gpu.nvlink.packet"] == {"gpu0": "not supported"}


def test_a_branch_that_stops_at_counters_that_it_lacks_has_none(node: Node) -> None:
    """460 on an A100, over a library without ECC counters of NVLinks."""
    text = f"{HEAD}NVML: Unable to retrieve NvLink ECC error counter for link 0: Not Supported"
    node.tool("nvidia-smi", f"echo {shlex.quote(text)}; exit 3")
    assert values(node)["gpu.nvlink.crc"].startswith(NOT_AVAILABLE)
    node.tool("nvidia-smi", f"echo {shlex.quote(text)}; exit 255")
    assert values(node)["gpu.nvlink.crc"].startswith("nvidia-smi: exit 255: GPU 0: NVIDIA H200")


def test_a_failed_topology_says_why(node: Node) -> None:
    node.tool("nvidia-smi", r"printf '\t\033[4mGPU0\033[0m\nFailed to run matrix\n'; exit 255")
    assert values(node)["gpu.topology"] == "nvidia-smi: exit 255: Failed to run matrix"
