"""The simulated nvidia-smi answers like the recorded H200, and fails like the real program."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "lab" / "standins" / "nvidia_smi.py"
CAPTURES = Path(__file__).parents[1] / "captures" / "h200"
BUSES = ["1B", "43", "52", "61", "9D", "C3", "D1", "DF"]


class Node:
    """A state file, and the program that reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def call(
        self, *arguments: str, euid: int = 0, timeout: float = 20
    ) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "LOCKSTEP_STANDIN_STATE": str(self.path),
            "LOCKSTEP_STANDIN_EUID": str(euid),
        }
        return subprocess.run(
            [sys.executable, "-IS", str(SCRIPT), *arguments],
            capture_output=True,
            text=True,
            env=environment,
            timeout=timeout,
            check=False,
        )

    def ok(self, *arguments: str) -> str:
        result = self.call(*arguments)
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout

    def fails(self, code: int, *arguments: str, euid: int = 0) -> str:
        result = self.call(*arguments, euid=euid)
        assert result.returncode == code, result.stdout + result.stderr
        assert result.stderr == ""
        return result.stdout

    def standin(self, verb: str, *arguments: str) -> str:
        return self.ok(f"--standin-{verb}", str(self.path), *arguments)

    def query(self, names: str, *arguments: str) -> list[list[str]]:
        text = self.ok(f"--query-gpu={names}", "--format=csv,noheader", *arguments)
        return [line.split(", ") for line in text.splitlines()]

    def column(self, name: str, *arguments: str) -> list[str]:
        return [row[0] for row in self.query(name, *arguments)]

    def state(self) -> Any:
        return json.loads(self.path.read_text())


def make(path: Path, seed: str = "worker001") -> Node:
    path.write_text(new_state(seed))
    return Node(path)


@cache
def new_state(seed: str) -> str:
    return Node(Path(os.devnull)).ok("--standin-new-state", "--seed", seed)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return make(tmp_path / "gpus.json")


# --- formats of the capture -------------------------------------------------------------------

# What is a GPU's own, or the moment's; everything else must be the recorded text.
OWN = {
    "timestamp", "count", "serial", "uuid", "pci.bus_id", "pci.bus", "platform.module_id",
    "temperature.gpu", "temperature.gpu.tlimit", "temperature.memory", "power.draw",
    "power.draw.average", "power.draw.instant",
}  # fmt: skip


def captured_query() -> tuple[str, dict[str, str]]:
    head, row = (CAPTURES / "query-gpu.csv").read_text().splitlines()
    names = [column.split(" [")[0] for column in head.split(", ")]
    return head, dict(zip(names, row.split(", "), strict=True))


def test_query_of_every_field_equals_the_capture(node: Node) -> None:
    head, recorded = captured_query()
    text = node.ok("--query-gpu=" + ",".join(recorded), "--format=csv")
    lines = text.splitlines()
    assert lines[0] == head
    assert len(lines) == 9
    for line in lines[1:]:
        answered = dict(zip(recorded, line.split(", "), strict=True))
        own = OWN | {"index"}
        assert {k: v for k, v in answered.items() if k not in own} == {
            k: v for k, v in recorded.items() if k not in own
        }
        for name in OWN:
            shape = re.sub(r"[0-9a-fA-F]", "0", recorded[name])
            if name not in ("count", "temperature.gpu.tlimit"):
                assert re.sub(r"[0-9a-fA-F]", "0", answered[name]) == shape, name


def test_log_equals_the_capture(node: Node) -> None:
    recorded = (CAPTURES / "q.txt").read_text().splitlines()
    answered = node.ok("-q", "-i", "0").rstrip("\n").splitlines()
    different = [pair for pair in zip(recorded, answered, strict=True) if pair[0] != pair[1]]
    labels = {one.split(":")[0].strip() for one, _ in different}
    assert labels <= {
        "Timestamp", "Attached GPUs", "GPU 00000000", "Serial Number", "GPU UUID", "GPU PDI",
        "Board ID", "Module Id", "Virtualization Mode", "Bus", "Bus Id", "GPU Current Temp",
        "GPU T.Limit Temp", "Memory Current Temp", "Average Power Draw",
        "Instantaneous Power Draw",
    }  # fmt: skip
    for one, other in different:
        assert one[:57].split(":")[0] == other[:57].split(":")[0]


def test_summary_has_the_captures_shape(node: Node) -> None:
    recorded = (CAPTURES / "summary.txt").read_text()
    answered = node.ok("-i", "0")

    def shape(text: str) -> list[str]:
        lines = [re.sub(r"[0-9A-F]", "0", line) for line in text.splitlines()]
        return [line.replace("DE", "00") for line in lines[1:]]

    assert shape(answered) == shape(recorded)
    assert re.fullmatch(r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4} {7}", answered.splitlines()[0])


def test_nvlink_status_equals_the_capture(node: Node) -> None:
    head, *links = (CAPTURES / "nvlink-s.txt").read_text().splitlines()
    answered = node.ok("nvlink", "-s").splitlines()
    assert len(answered) == 8 * 19
    for index in range(8):
        block = answered[19 * index : 19 * index + 19]
        assert re.fullmatch(r"GPU \d: NVIDIA H200 \(UUID: GPU-[0-9a-f-]{36}\)", head)
        assert re.fullmatch(rf"GPU {index}: NVIDIA H200 \(UUID: GPU-[0-9a-f-]{{36}}\)", block[0])
        assert block[1:] == links


def test_list_and_version(node: Node) -> None:
    uuids = node.column("uuid")
    assert node.ok("-L").splitlines() == [
        f"GPU {index}: NVIDIA H200 (UUID: {uuid})" for index, uuid in enumerate(uuids)
    ]
    assert node.ok("--version").splitlines() == [
        "NVIDIA-SMI version  : 590.48.01",
        "NVML version        : 590.48",
        "DRIVER version      : 590.48.01",
        "CUDA Version        : 13.1",
    ]


def test_topology_matrix(node: Node) -> None:
    lines = node.ok("topo", "-m").splitlines()
    gpus = "\t".join(f"GPU{n}" for n in range(8))
    assert lines[0] == f"\t\x1b[4m{gpus}\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m"
    assert lines[1] == "GPU0\t X " + "\tNV18" * 7 + "\t0-47,96-143\t0\t\tN/A"
    assert lines[8] == "GPU7" + "\tNV18" * 7 + "\t X \t48-95,144-191\t1\t\tN/A"
    assert lines[9:12] == ["", "Legend:", ""]


def test_formats_noheader_and_nounits(node: Node) -> None:
    names = "index,power.limit,clocks.max.sm,memory.total,fan.speed,clocks.applications.graphics"
    assert node.ok(f"--query-gpu={names}", "--format=csv,nounits", "-i", "3") == (
        "index, power.limit [W], clocks.max.sm [MHz], memory.total [MiB], fan.speed [%], "
        "clocks.applications.graphics [MHz]\n"
        "3, 700.00, 1980, 143771, [N/A], [Requested functionality has been deprecated]\n"
    )
    deprecated = "[Requested functionality has been deprecated]"
    row = ["3", "700.00 W", "1980 MHz", "143771 MiB", "[N/A]", deprecated]
    assert node.query(names, "-i", "3") == [row]
    spaced = node.ok("--query-gpu", "index", "--format", "csv,noheader")
    assert spaced == "".join(f"{n}\n" for n in range(8))


def test_an_alias_is_answered_under_its_first_name(node: Node) -> None:
    names = "gpu_name,clocks_throttle_reasons.active,clocks.sm,gpu.power.current_limit"
    assert node.ok(f"--query-gpu={names}", "--format=csv", "-i", "0") == (
        "name, clocks_event_reasons.active, clocks.current.sm [MHz], enforced.power.limit [W]\n"
        "NVIDIA H200, 0x0000000000000001, 345 MHz, 700.00 W\n"
    )


def test_help_lists_every_field_that_is_answered(node: Node) -> None:
    lines = [line for line in node.ok("--help-query-gpu").splitlines() if line.startswith('"')]
    first = [line.split('"')[1] for line in lines]
    assert first == list(captured_query()[1])
    assert '"enforced.power.limit" or "gpu.power.current_limit"' in lines
    every = ",".join(name for line in lines for name in re.findall('"([^"]+)"', line))
    assert len(node.query(every)) == 8


def test_other_lists(node: Node) -> None:
    common = "timestamp,gpu_name,gpu_bus_id,gpu_serial,gpu_uuid"
    heads = common.replace(",", ", ")
    apps = node.ok(f"--query-compute-apps={common},pid,name,used_memory", "--format=csv")
    assert apps == f"{heads}, pid, process_name, used_gpu_memory [MiB]\n"
    accounted = "pid,gpu_util,mem_util,max_memory_usage,time"
    assert node.ok(f"--query-accounted-apps={accounted}", "--format=csv") == (
        "pid, gpu_utilization [%], mem_utilization [%], max_memory_usage [MiB], time [ms]\n"
    )
    pages = "retired_pages.address,retired_pages.timestamp,retired_pages.cause"
    text = node.ok(f"--query-retired-pages=gpu_name,{pages}", "--format=csv", "-i", "0")
    assert text.splitlines()[1:] == [
        "NVIDIA H200, [N/A], [N/A], Single Bit ECC",
        "NVIDIA H200, [N/A], [N/A], Double Bit ECC",
    ]
    node.standin("set", "2", "remapped_rows.pending=Yes")
    rows = node.ok("--query-remapped-rows=remapped_rows.pending", "--format=csv,noheader")
    assert rows.splitlines() == ["No", "No", "Yes", "No", "No", "No", "No", "No"]


def test_processes_are_shown_everywhere(node: Node) -> None:
    state = node.state()
    process = {"pid": "10309", "type": "C", "name": "./gpu_burn", "memory": "28234 MiB"}
    state["gpus"][1]["processes"] = [process]
    node.path.write_text(json.dumps(state))
    apps = node.ok("--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader")
    assert apps == "10309, ./gpu_burn, 28234 MiB\n"
    row = f"|    1   N/A  N/A           10309      C   {'./gpu_burn':<34}    28234MiB |"
    assert row in node.ok().splitlines()
    assert "            Used GPU Memory               : 28234 MiB" in node.ok("-q").splitlines()
    tree = ElementTree.fromstring(node.ok("-q", "-x"))
    assert [p.findtext("used_memory") for p in tree.iter("process_info")] == ["28234 MiB"]


# --- XML and -q against the query ---------------------------------------------------------------

XML_PATHS = {
    "name": "product_name",
    "serial": "serial",
    "uuid": "uuid",
    "vbios_version": "vbios_version",
    "persistence_mode": "persistence_mode",
    "inforom.img": "inforom_version/img_version",
    "pci.bus_id": "pci/pci_bus_id",
    "pcie.link.gen.current": "pci/pci_gpu_link_info/pcie_gen/current_link_gen",
    "power.limit": "gpu_power_readings/requested_power_limit",
    "enforced.power.limit": "gpu_power_readings/current_power_limit",
    "power.draw.average": "gpu_power_readings/average_power_draw",
    "clocks.current.sm": "clocks/sm_clock",
    "clocks.max.memory": "max_clocks/mem_clock",
    "ecc.mode.pending": "ecc_mode/pending_ecc",
    "ecc.errors.uncorrected.volatile.dram": "ecc_errors/volatile/dram_uncorrectable",
    "remapped_rows.failure": "remapped_rows/remapped_row_failure",
    "fabric.state": "fabric/state",
    "memory.total": "fb_memory_usage/total",
    "clocks_event_reasons.sw_power_cap": "clocks_event_reasons/clocks_event_reason_sw_power_cap",
}


def test_xml_and_query_come_from_one_state(node: Node) -> None:
    node.standin(
        "set", "5", "enforced.power.limit=350", "ecc.errors.uncorrected.volatile.dram=3",
        "clocks_event_reasons.sw_power_cap=Active", "name=A<B&C", "fabric.state=In Progress",
    )  # fmt: skip
    text = node.ok("-q", "-x")
    assert text.startswith(
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n'
    )
    tree = ElementTree.fromstring(text)
    assert tree.findtext("attached_gpus") == "8"
    rows = node.query(",".join(XML_PATHS))
    gpus = tree.findall("gpu")
    assert [gpu.get("id") for gpu in gpus] == node.column("pci.bus_id")
    for gpu, row in zip(gpus, rows, strict=True):
        assert [gpu.findtext(path) for path in XML_PATHS.values()] == row
    assert [gpu.findtext("minor_number") for gpu in gpus] == [str(n) for n in range(8)]
    assert gpus[5].findtext("gpu_power_readings/current_power_limit") == "350.00 W"
    assert gpus[0].findtext("pci/pci_bus") == "1B"
    assert gpus[0].findtext("pci/pci_gpu_link_info/link_widths/max_link_width") == "16x"
    assert len(gpus[0].findall("supported_clocks/*/supported_graphics_clock")) == 110


def test_every_text_line_has_an_xml_value(node: Node) -> None:
    """-q and -q -x are drawn from one table; no value may be in one and lost in the other."""
    texts = re.findall(r" : (.+)", node.ok("-q", "-i", "2"))
    values = {element.text for element in ElementTree.fromstring(node.ok("-q", "-x")).iter()}
    for value in texts[6:]:
        assert value in values or value.removeprefix("0x") in values or value in ("None", "N/A")


@pytest.mark.parametrize(
    ("section", "inside", "outside"),
    [
        ("POWER", "        Current Power Limit", "        GPU Current Temp"),
        ("ECC", "            DRAM Uncorrectable", "        Current Power Limit"),
        ("ROW_REMAPPER", "        Remapping Failure Occurred", "        Current Power Limit"),
        ("SUPPORTED_CLOCKS", "            Graphics", "        Current Power Limit"),
    ],
)
def test_display_sections(node: Node, section: str, inside: str, outside: str) -> None:
    heads = [line[:55].rstrip() for line in node.ok("-q", "-d", section, "-i", "0").splitlines()]
    assert inside in heads
    assert outside not in heads


# --- choosing GPUs --------------------------------------------------------------------------------


def test_select_by_index_uuid_serial_and_bus(node: Node) -> None:
    uuid, serial, bus = node.query("uuid,serial,pci.bus_id")[4]
    for key in ("4", uuid, serial, bus, bus.lower(), bus[4:], bus[9:]):
        assert node.column("index", "-i", key) == ["4"], key
    assert node.column("index", "--id=6,1") == ["1", "6"]


def test_select_nothing(node: Node) -> None:
    for key in ("8", "GPU-x", "0,99", "00000000:FF:00.0"):
        for command in (["--query-gpu=index", "--format=csv"], ["-q"], ["-q", "-x"], ["-pm", "1"]):
            assert node.fails(6, *command, "-i", key) == "No devices were found\n"
    assert node.fails(6, "nvlink", "-s", "-i", "9") == "No devices were found\n"
    assert node.fails(6, "-i", "9") == "No devices were found\n"


# --- wrong use, word for word -------------------------------------------------------------------

HELP = "Please run 'nvidia-smi -h' for help.\n\n"
EARLY = "Terminating early due to previous errors.\n"


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (
            ["--query-gpu=index,bogus,worse", "--format=csv"],
            2,
            'Field "bogus" is not a valid field to query.\n\n',
        ),
        (
            ["--query-gpu=index, name", "--format=csv"],
            2,
            'Field " name" is not a valid field to query.\n\n',
        ),
        (
            ["--query-remapped-rows=uuid", "--format=csv"],
            2,
            'Field "uuid" is not a valid field to query.\n\n',
        ),
        (["--query-gpu=index"], 2, f'"--format=" switch is missing. {HELP}'),
        (
            ["--query-gpu=index", "--format=noheader"],
            2,
            "Format modifier --format=csv is mandatory.\n",
        ),
        (["--query-gpu=index", "--format=csv,x"], 2, "Format modifier is not recognized.\n"),
        (
            ["--bogus"],
            255,
            "ERROR: Option --bogus is not recognized. Please run 'nvidia-smi -h'.\n\n",
        ),
        (["-i"], 255, f"ERROR: Option -i is missing its value. {HELP}"),
        (["-L", "-i", "1"], 2, f"ERROR: Option -i is not valid for this command. {HELP}"),
        (["-q", "-d", "FOO"], 2, "Failed to parse --display/-d flags\n"),
        (["-pm", "2"], 2, f"Invalid persistence mode: 2\n{EARLY}"),
        (["-pm", "x"], 2, f"ERROR: Option x is invalid for -pm. {HELP}"),
        (["-e", "5"], 2, f"Invalid ECC configuration code: 5\n{EARLY}"),
        (["-pl", "abc"], 2, f"ERROR: Option abc is invalid for -pl. {HELP}"),
        (
            ["-pm", "1", "-pl", "300"],
            2,
            "Invalid combination of input arguments. "
            "Only one device modification may be done at a time.\n\n",
        ),
        (["topo", "-x"], 2, 'Option "-x" is not recognized.\n'),
    ],
)
def test_wrong_use(node: Node, arguments: list[str], code: int, text: str) -> None:
    assert node.fails(code, *arguments) == text


def test_a_real_option_that_is_not_simulated_is_reported(node: Node) -> None:
    result = node.call("-r")
    assert (result.returncode, result.stdout) == (255, "")
    assert result.stderr == 'nvidia-smi (simulated): "-r" exists, but is not simulated\n'


# --- settings -----------------------------------------------------------------------------------


def test_power_limit(node: Node) -> None:
    assert node.ok("-pl", "350", "-i", "2") == (
        "Power limit for GPU 00000000:52:00.0 was set to 350.00 W from 700.00 W.\nAll done.\n"
    )
    names = "power.limit,enforced.power.limit,power.default_limit"
    assert node.query(names, "-i", "2") == [["350.00 W", "350.00 W", "700.00 W"]]
    assert node.query(names, "-i", "3") == [["700.00 W", "700.00 W", "700.00 W"]]
    assert node.ok("--power-limit=700").count("was set to 700.00 W from ") == 8


@pytest.mark.parametrize("watts", ["50", "199.99", "700.01", "nan"])
def test_power_limit_out_of_range(node: Node, watts: str) -> None:
    before = node.path.read_text()
    assert node.fails(2, "-pl", watts) == (
        f"Provided power limit {float(watts):.2f} W is not a valid power limit which should be "
        "between 200.00 W and 700.00 W for GPU 00000000:1B:00.0\n" + EARLY
    )
    assert node.path.read_text() == before


def test_what_was_set_before_a_failing_gpu_stays_set(node: Node) -> None:
    node.standin("set", "1", "power.max_limit=400")
    assert node.fails(2, "-pl", "500").startswith("Power limit for GPU 00000000:1B:00.0 was set")
    assert node.column("power.limit")[:3] == ["500.00 W", "700.00 W", "700.00 W"]


def test_persistence_mode(node: Node) -> None:
    assert node.ok("-pm", "1", "-i", "0") == (
        "Persistence mode is already Enabled for GPU 00000000:1B:00.0.\nAll done.\n"
    )
    lines = node.ok("-pm", "0").splitlines()
    assert lines[0] == "Disabled persistence mode for GPU 00000000:1B:00.0."
    assert (len(lines), lines[-1]) == (9, "All done.")
    assert node.column("persistence_mode") == ["Disabled"] * 8
    assert "persistence mode is disabled on device" in node.ok("-pl", "600", "-i", "0")


def test_ecc_changes_only_what_comes_after_the_reboot(node: Node) -> None:
    assert node.ok("-e", "0", "-i", "1") == (
        "Disabled ECC support for GPU 00000000:43:00.0.\nAll done.\nReboot required.\n"
    )
    names = "ecc.mode.current,ecc.mode.pending"
    assert node.query(names, "-i", "1") == [["Enabled", "Disabled"]]
    assert node.ok("-e", "1", "-i", "0").startswith("ECC support is already Enabled for GPU")


def test_locked_clocks_lift_an_idle_gpu_and_show_nowhere_else(node: Node) -> None:
    names = "clocks.current.sm,clocks.max.sm,clocks_event_reasons.active"
    before = node.query(names)
    assert node.ok("-lgc", "1200,1500", "-i", "0") == (
        'GPU clocks set to "(gpuClkMin 1200, gpuClkMax 1500)" for GPU 00000000:1B:00.0\nAll done.\n'
    )
    assert node.query(names) == [["1200 MHz", *before[0][1:]], *before[1:]]
    assert "clocks.locked=1200,1500 (was none)" in node.standin("show")
    node.ok("-lgc", "200,1500", "-i", "0")
    assert node.query(names) == before
    node.ok("-lgc", "1200", "-i", "0")
    assert node.ok("-rgc") == "All done.\n"
    assert node.query(names) == before
    assert "clocks.locked" not in node.standin("show")
    assert node.fails(2, "-lgc", "abc").startswith('Specified clocks "abc" are not valid.')


def test_compute_mode(node: Node) -> None:
    assert node.ok("-c", "0", "-i", "1") == (
        "Compute mode is already set to DEFAULT for GPU 00000000:43:00.0.\nAll done.\n"
    )
    assert node.ok("-i", "1", "-c", "EXCLUSIVE_PROCESS") == (
        "Set compute mode to EXCLUSIVE_PROCESS for GPU 00000000:43:00.0.\nAll done.\n"
    )
    assert node.column("compute_mode")[:2] == ["Default", "Exclusive_Process"]
    node.ok("-c", "2")
    assert node.column("compute_mode") == ["Prohibited"] * 8
    assert node.fails(2, "-c", "7").startswith("Invalid compute mode: 7\n")
    assert "is invalid for -c" in node.fails(2, "-c", "shared")


def test_mig(node: Node) -> None:
    uuid = node.column("uuid")[2]
    assert node.fails(6, "mig", "-i", uuid, "-lgi") == "No MIG-enabled devices found.\n"
    assert node.ok("-i", uuid, "-mig", "1") == (
        "Enabled MIG Mode for GPU 00000000:52:00.0\nAll done.\n"
    )
    assert node.query("mig.mode.current,mig.mode.pending", "-i", "2") == [["Enabled"] * 2]
    assert node.fails(6, "mig", "-i", uuid, "-lgi") == "No GPU instances found: Not Found\n"
    said = node.ok("mig", "-i", uuid, "-cgi", "3g.71gb,19", "-C").splitlines()
    assert said[0] == (
        "Successfully created GPU instance ID  1 on GPU  2 using profile MIG 3g.71gb (ID  9)"
    )
    assert (len(said), said[3].split(" on ")[0]) == (
        4,
        "Successfully created compute instance ID  0",
    )
    table = node.ok("mig", "-lgi").splitlines()
    assert "MIG 1g.18gb" in table[6]
    assert {len(line) for line in table} == {59}
    listed = node.ok("-L").splitlines()
    assert [line.split(" (")[0] for line in listed[3:5]] == [
        "  MIG 3g.71gb     Device  0:",
        "  MIG 1g.18gb     Device  1:",
    ]
    assert listed[5].startswith("GPU 3: ")
    assert len(node.ok("mig", "-i", uuid, "-gi", "1", "-dci").splitlines()) == 1
    assert [line[:18] for line in node.ok("-L").splitlines()[3:5]] == [
        "  MIG 1g.18gb     ",
        "GPU 3: NVIDIA H200",
    ]
    assert len(node.ok("mig", "-i", uuid, "-gi", "1", "-dgi").splitlines()) == 1
    again = node.ok("mig", "-i", uuid, "-cgi", "3g.71gb", "-C")
    assert "GPU instance ID  1 on GPU  2" in again, "in the place that became free"
    assert "Insufficient Resources" in node.fails(255, "mig", "-cgi", "4g.71gb")
    assert "In use by another client" in node.ok("-mig", "0", "-i", uuid)
    assert node.query("mig.mode.current,mig.mode.pending", "-i", "2") == [["Enabled", "Disabled"]]
    assert "In use by another client" in node.fails(255, "mig", "-dgi")
    assert len(node.ok("mig", "-dci").splitlines()) == 2
    assert len(node.ok("mig", "-dgi").splitlines()) == 2
    node.ok("-mig", "0")
    assert node.column("mig.mode.current") == ["Disabled"] * 8
    assert node.fails(2, "mig", "-i", uuid, "-x") == 'Option "-x" is not recognized.\n'


# --- on a node ------------------------------------------------------------------------------------


def test_a_boot_forgets_what_the_driver_holds_and_keeps_what_the_gpu_holds(node: Node) -> None:
    new = node.query("power.limit,enforced.power.limit,clocks.current.sm,compute_mode")
    for arguments in (["-pl", "500"], ["-lgc", "900"], ["-c", "3"], ["-e", "0"], ["-mig", "1"]):
        node.ok(*arguments)
    node.ok("mig", "-cgi", "0", "-C")
    node.standin("set", "5", "enforced.power.limit=350")
    node.standin("boot")
    kept = node.query("power.limit,enforced.power.limit,clocks.current.sm,compute_mode")
    assert kept[5][1] == "350.00 W", "a cap from outside stays"
    kept[5][1] = new[5][1]
    assert kept == new
    assert node.column("persistence_mode") == ["Disabled"] * 8
    assert node.query("ecc.mode.current,mig.mode.current") == [["Disabled", "Enabled"]] * 8
    assert node.fails(6, "mig", "-lgi") == "No GPU instances found: Not Found\n"


def versions(node: Node, monkeypatch: pytest.MonkeyPatch, loaded: str, library: str) -> None:
    """A machine with this kernel module, and this library ("": none)."""
    root = node.path.parent / "root"
    monkeypatch.setenv("LOCKSTEP_STANDIN_ROOT", str(root))
    libraries, driver = root / "usr/lib/x86_64-linux-gnu", root / "proc/driver/nvidia"
    if root.exists():
        shutil.rmtree(root)
    for folder in (libraries, driver):
        folder.mkdir(parents=True)
    (driver / "version").write_text(
        f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {loaded}  Release Build\n"
    )
    if library:
        (libraries / f"libnvidia-ml.so.{library}").write_text("")
        (libraries / "libnvidia-ml.so.1").symlink_to(f"libnvidia-ml.so.{library}")


def test_the_versions_are_those_of_the_machine(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("550.163.01", ""):
        versions(node, monkeypatch, "550.163.01", library)
        assert node.column("driver_version") == ["550.163.01"] * 8
        assert "CUDA Version        : 12.4\n" in node.ok("--version")
    versions(node, monkeypatch, "550.163.01", "550.163.02")
    assert node.fails(18, "-L") == (
        "Failed to initialize NVML: Driver/library version mismatch\n"
        "NVML library version: 550.163\n"
    )
    before = node.state()["node"]
    node.standin("set", "node", "hang_s=0")
    assert node.state()["node"] == before, "readings are never written"
    node.standin("set", "node", "driver_version=535.261.03")
    assert node.column("driver_version") == ["535.261.03"] * 8


def test_in_a_container_the_state_tells_the_version_and_the_devices_which_gpus(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = node.path.parent / "container"
    monkeypatch.setenv("LOCKSTEP_STANDIN_ROOT", str(root))
    assert node.column("driver_version") == ["590.48.01"] * 8
    node.standin("set", "node", "loaded_version=550.163.02")
    assert node.column("driver_version") == ["550.163.02"] * 8
    uuid = node.column("uuid")[3]
    (root / "dev").mkdir(parents=True)
    for name in ("nvidiactl", "nvidia3"):
        (root / "dev" / name).touch()
    assert node.query("index,uuid,driver_version") == [["0", uuid, "550.163.02"]]


# --- settings that need root ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["-pm", "0"], "Unable to set persistence mode for GPU {}: Insufficient Permissions\n"),
        (["-e", "0"], "Unable to set ECC config for GPU {}: Insufficient Permissions\n"),
        (
            ["-pl", "300"],
            "Failed to set power management limit for GPU {}: Insufficient Permissions\n",
        ),
        (
            ["-lgc", "900"],
            "The current user does not have permission to change clocks for GPU {}.\n",
        ),
        (["-rgc"], "The current user does not have permission to change clocks for GPU {}.\n"),
        (["-c", "2"], "Unable to set the compute mode for GPU {}: Insufficient Permissions\n"),
        (["-mig", "1"], "Unable to set MIG mode for GPU {}: Insufficient Permissions\n"),
    ],
)
def test_settings_need_root(node: Node, arguments: list[str], text: str) -> None:
    before = node.path.read_text()
    assert node.fails(4, *arguments, euid=1000) == text.format("00000000:1B:00.0") + EARLY
    assert node.path.read_text() == before
    assert node.call("-pm", "1", euid=1000).returncode == 0
    assert node.call("-q", euid=1000).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_the_real_user_counts(tmp_path: Path) -> None:
    folder = Path("/tmp") / f"standin-{os.getpid()}"
    folder.mkdir()
    try:
        script = folder / "nvidia-smi"
        shutil.copy(SCRIPT, script)
        folder.chmod(0o755)
        script.chmod(0o755)
        node = make(folder / "gpus.json")
        node.path.chmod(0o644)
        result = subprocess.run(
            [script, "-pl", "300"],
            user=65534,
            env={"LOCKSTEP_STANDIN_STATE": str(node.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 4, result.stderr
        assert "Insufficient Permissions" in result.stdout
    finally:
        shutil.rmtree(folder)


# --- ways to fail ---------------------------------------------------------------------------------

EVERYTHING: tuple[list[str], ...] = (
    [],
    ["-L"],
    ["-q"],
    ["-q", "-x"],
    ["--version"],
    ["--help-query-gpu"],
    ["--query-gpu=index", "--format=csv"],
    ["--bogus"],
    ["-pm", "1"],
    ["topo", "-m"],
    ["nvlink", "-s"],
)
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
    "the latest NVIDIA driver is installed and running.\n\n"
)


def test_driver_not_loaded(node: Node) -> None:
    node.standin("set", "node", "driver=not_loaded")
    for arguments in EVERYTHING:
        assert node.fails(9, *arguments) == NO_DRIVER


def test_library_and_driver_differ(node: Node) -> None:
    node.standin("set", "node", "driver=mismatch", "library_version=595.71.05")
    for arguments in EVERYTHING:
        assert node.fails(18, *arguments) == (
            "Failed to initialize NVML: Driver/library version mismatch\n"
            "NVML library version: 595.71\n"
        )


def test_no_library(node: Node) -> None:
    node.standin("set", "node", "driver=no_library")
    assert node.fails(12, "-L").startswith("NVIDIA-SMI couldn't find libnvidia-ml.so library")


@pytest.mark.parametrize("how", ["removed", "setting"])
def test_no_devices(node: Node, how: str) -> None:
    if how == "removed":
        node.standin("remove", "all")
    else:
        node.standin("set", "node", "driver=no_devices")
    for arguments in ([], ["-q"], ["-q", "-x"], ["--query-gpu=index", "--format=csv"]):
        assert node.fails(6, *arguments) == "No devices were found\n"
    assert node.fails(6, "nvlink", "-s") == "No devices were found\n"
    assert node.fails(255, "topo", "-m") == "Failed to run topology matrix\n\n"
    assert node.ok("-L") == "No devices found.\n"


def test_hang(node: Node) -> None:
    node.standin("set", "node", "hang_s=0.7")
    start = time.monotonic()
    node.ok("-L")
    assert time.monotonic() - start >= 0.7
    node.standin("set", "node", "hang_s=60")
    with pytest.raises(subprocess.TimeoutExpired):
        node.call("-L", timeout=1)


def test_no_state_file_is_no_driver_and_says_why(tmp_path: Path) -> None:
    result = Node(tmp_path / "nothing.json").call("-L")
    assert (result.returncode, result.stdout) == (9, NO_DRIVER)
    assert result.stderr == f"nvidia-smi (simulated): no state file {tmp_path}/nothing.json\n"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', '{"format": 1, "gpus": [{}]}'])
def test_a_broken_state_file_is_no_answer(tmp_path: Path, text: str) -> None:
    node = Node(tmp_path / "gpus.json")
    node.path.write_text(text)
    result = node.call("-L")
    assert (result.returncode, result.stdout) == (255, "")
    assert "simulated" in result.stderr
    assert "Traceback" not in result.stderr


def test_removed_gpu(node: Node) -> None:
    before = node.query("uuid,pci.bus_id")
    node.standin("remove", "3")
    rows = node.query("index,uuid,pci.bus_id,count")
    assert [row[0] for row in rows] == [str(n) for n in range(7)]
    assert [row[1:3] for row in rows] == before[:3] + before[4:]
    assert {row[3] for row in rows} == {"7"}
    tree = ElementTree.fromstring(node.ok("-q", "-x"))
    assert tree.findtext("attached_gpus") == "7"
    assert [g.findtext("minor_number") for g in tree.iter("gpu")] == list("0124567")
    assert len(node.ok("-L").splitlines()) == 7
    assert before[3][0] not in node.ok() + node.ok("-q") + node.ok("nvlink", "-s")
    assert node.ok("topo", "-m").splitlines()[1].count("NV18") == 6
    assert "gpu 3 (removed)" in node.standin("show")
    node.standin("set", "4", "vbios_version=X")
    assert node.column("vbios_version", "-i", "3") == ["X"]
    node.standin("restore", "3")
    assert node.query("uuid,pci.bus_id") == before


def test_lost_gpu(node: Node) -> None:
    node.standin("set", "1", "lost=yes")
    lost = (
        "Unable to determine the device handle for GPU1: 0000:43:00.0: GPU is lost.  "
        "Reboot the system to recover this GPU\n\n\n"
    )
    query = ["--query-gpu=index", "--format=csv"]
    for arguments in ([], ["-q"], ["-q", "-x"], query, ["-pm", "0"], ["nvlink", "-s"]):
        assert node.fails(15, *arguments) == lost
    assert node.fails(15, *query, "-i", "1") == lost
    assert node.ok(*query, "-i", "0,2") == "index\n0\n2\n"
    assert node.fails(255, "topo", "-m") == "Failed to run topology matrix\n\n"
    listing = node.fails(15, "-L")
    assert listing.splitlines()[1] == lost.splitlines()[0].replace("GPU1:", "gpu 1:")
    assert listing.count("UUID") == 7
    node.standin("set", "1", "lost=no")
    assert node.column("index") == [str(n) for n in range(8)]


def test_newer_drivers_go_on_after_a_lost_gpu(node: Node) -> None:
    node.standin("set", "1", "lost=yes")
    node.standin("set", "node", "on_lost=continue")
    lines = node.fails(15, "--query-gpu=index", "--format=csv,noheader").splitlines()
    assert lines[0] == "0"
    assert lines[1].startswith("Unable to determine the device handle for GPU1: ")
    assert lines[2:] == list("234567")


def test_links_that_are_down(node: Node) -> None:
    node.standin("set", "2", "nvlink.3.speed=<inactive>", "nvlink.7.replay=12")
    status = node.ok("nvlink", "-s", "-i", "2").splitlines()
    assert status[4] == "\t Link 3: <inactive>"
    assert status[5] == "\t Link 4: 26.562 GB/s"
    errors = node.ok("nvlink", "-e", "-i", "2").splitlines()
    assert "\t Link 7: Replay Errors: 12" in errors
    assert "\t Link 7: CRC Errors: 0" in errors
    assert not [line for line in errors if "Link 3:" in line]
    matrix = node.ok("topo", "-m").splitlines()
    assert matrix[3].startswith("GPU2\tNV17\tNV17\t X \tNV17")
    assert matrix[1].startswith("GPU0\t X \tNV18\tNV17\tNV18")
    node.standin("set", "0", *(f"nvlink.{n}.speed=<inactive>" for n in range(18)))
    assert node.ok("topo", "-m").splitlines()[1].split("\t")[2:9] == ["NODE"] * 3 + ["SYS"] * 4


# --- making and changing states ----------------------------------------------------------------

UNIQUE = {"serial", "uuid", "gpu_pdi"}
LIVE = {
    "temperature.gpu", "temperature.gpu.tlimit", "temperature.memory", "power.draw",
    "power.draw.average", "power.draw.instant",
}  # fmt: skip


def test_nodes_are_equal_but_for_identities_and_live_values(tmp_path: Path) -> None:
    one, two = make(tmp_path / "1", "a").state(), make(tmp_path / "2", "b").state()
    assert one["format"] == 1
    seen: dict[str, list[str]] = {}
    for gpu, other in zip(one["gpus"], two["gpus"], strict=True):
        left, right = ({**g["fields"], **g["extra"]} for g in (gpu, other))
        assert {name for name in left if left[name] != right[name]} <= UNIQUE | LIVE
        for name in UNIQUE:
            seen.setdefault(name, []).extend((left[name], right[name]))
    for values in seen.values():
        assert len(set(values)) == 16
    assert all(len(serial) == 13 for serial in seen["serial"])
    assert [g["fields"]["pci.bus"] for g in one["gpus"]] == [f"0x{bus}" for bus in BUSES]
    assert len({g["fields"]["power.draw"] for g in one["gpus"]}) > 3


def test_a_seed_gives_one_state(tmp_path: Path) -> None:
    one, two = make(tmp_path / "1"), make(tmp_path / "2")
    assert one.path.read_text() == two.path.read_text()
    four = json.loads(one.ok("--standin-new-state", "--count=4", "--seed=worker001"))
    assert four["gpus"] == one.state()["gpus"][:4]


@pytest.mark.parametrize(
    ("setting", "name", "printed"),
    [
        ("enforced.power.limit=350", "enforced.power.limit", "350.00 W"),
        ("enforced.power.limit=350 W", "enforced.power.limit", "350.00 W"),
        ("gpu.power.current_limit=350.5", "enforced.power.limit", "350.50 W"),
        ("clocks.max.sm=1755", "clocks.max.sm", "1755 MHz"),
        ("utilization.gpu=97", "utilization.gpu", "97 %"),
        ("edpp_multiplier=90", "edpp_multiplier", "90.00 %"),
        ("memory.total=143000", "memory.total", "143000 MiB"),
        ("clocks_event_reasons_counters.sw_power_cap=5", None, "5 us"),
        ("clocks_throttle_reasons.active=0x4", "clocks_event_reasons.active", "0x4"),
        ("temperature.gpu=91", "temperature.gpu", "91"),
        ("power.draw=[Unknown Error]", "power.draw", "[Unknown Error]"),
        ("vbios_version=96.00.99.00.01", "vbios_version", "96.00.99.00.01"),
    ],
)
def test_set_writes_values_as_the_real_one_prints_them(
    node: Node, setting: str, name: str | None, printed: str
) -> None:
    name = name or setting.partition("=")[0]
    before = node.state()
    node.standin("set", "6", setting)
    assert node.column(name, "-i", "6") == [printed]
    after = node.state()
    assert after["gpus"][6]["fields"].pop(name) == printed
    before["gpus"][6]["fields"].pop(name)
    assert after == before, "exactly what was named is set"


def test_set_all_and_node(node: Node) -> None:
    node.standin("set", "all", "compute_mode=Prohibited", "minor_number=9")
    assert node.column("compute_mode") == ["Prohibited"] * 8
    node.standin("set", "node", "driver_version=580.105.08", "cuda_version=13.0")
    assert node.column("driver_version") == ["580.105.08"] * 8
    assert "NVML version        : 580.105\n" in node.ok("--version")
    tree = ElementTree.fromstring(node.ok("-q", "-x"))
    assert tree.findtext("gpu/gsp_firmware_version") == "580.105.08"
    assert tree.findtext("cuda_version") == "13.0"


@pytest.mark.parametrize(
    ("target", "setting", "words"),
    [
        (
            "0",
            "enforced.powerlimit=350",
            ['unknown field "enforced.powerlimit"', "enforced.power.limit"],
        ),
        ("0", "nvlink.18.speed=x", ['unknown field "nvlink.18.speed"', "nvlink.17.speed"]),
        ("8", "power.limit=350", ['unknown GPU "8"', "expected 0 to 7"]),
        ("x", "power.limit=350", ['unknown GPU "x"']),
        ("0", "index=3", ["index is computed"]),
        ("0", "driver_version=1", ["driver_version is computed", "for the node"]),
        ("0", "power.limit=lots", ['"lots" for power.limit', "number (W)"]),
        ("0", "name=a, b", ["commas"]),
        ("0", "lost=maybe", ['"yes" or "no"']),
        ("node", "drivr=ok", ['unknown setting of the node "drivr"', "driver"]),
        ("node", "driver=gone", ["driver must be one of", "not_loaded"]),
        ("node", "hang_s=soon", ["hang_s must be a number"]),
        ("node", "hang_s=-1", ["hang_s must be a number"]),
    ],
)
def test_set_refuses_what_does_not_exist(
    node: Node, target: str, setting: str, words: list[str]
) -> None:
    before = node.path.read_text()
    result = node.call("--standin-set", str(node.path), target, "compute_cap=1", setting)
    if target == "node":
        result = node.call("--standin-set", str(node.path), target, setting)
    assert (result.returncode, result.stdout) == (3, "")
    for word in words:
        assert word in result.stderr
    assert node.path.read_text() == before, "all or nothing"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--standin-bogus"],
        ["--standin-set", "{}"],
        ["--standin-set", "{}", "0", "power.limit"],
        ["--standin-set", "{}.missing", "0", "power.limit=1"],
        ["--standin-show", "{}.missing"],
        ["--standin-reset"],
        ["--standin-new-state"],
        ["--standin-new-state", "--seed", "a", "--count", "9"],
        ["--standin-new-state", "--seed"],
    ],
)
def test_maintenance_wrong_use(node: Node, arguments: list[str]) -> None:
    result = node.call(*(argument.format(node.path) for argument in arguments))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("nvidia-smi (simulated): ")


def test_usage_names_the_verbs(node: Node) -> None:
    text = node.call("--standin-bogus").stderr
    for verb in ("new-state", "set", "remove", "restore", "reset", "show"):
        assert f"--standin-{verb}" in text


def test_reset_and_show(node: Node) -> None:
    before = node.path.read_text()
    assert len(node.standin("show").splitlines()) == 9
    node.standin("set", "2", "enforced.power.limit=350", "lost=yes")
    node.standin("set", "node", "driver=mismatch")
    node.standin("remove", "5")
    shown = node.standin("show").splitlines()
    assert shown[1] == "  driver=mismatch (was ok)"
    assert "  enforced.power.limit=350.00 W (was 700.00 W)" in shown
    assert [line[:20] for line in shown if line.startswith("gpu 2")] == ["gpu 2 (index 2, lost"]
    node.standin("reset")
    assert node.path.read_text() == before


def test_the_file_is_replaced_with_mode_and_owner_kept(node: Node) -> None:
    node.path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(node.path, 12, 34)
    before = node.path.stat()
    with node.path.open() as reader:
        node.standin("set", "0", "power.limit=300")
        assert json.load(reader)["gpus"][0]["fields"]["power.limit"] == "700.00 W"
    after = node.path.stat()
    assert after.st_ino != before.st_ino
    assert stat.S_IMODE(after.st_mode) == 0o640
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert [path.name for path in node.path.parent.iterdir()] == ["gpus.json"]


def test_changes_at_once_lose_nothing(node: Node) -> None:
    environment = {**os.environ, "LOCKSTEP_STANDIN_STATE": str(node.path)}
    environment["LOCKSTEP_STANDIN_EUID"] = "0"
    calls = [
        subprocess.Popen(
            [sys.executable, "-IS", SCRIPT, *arguments],
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        for slot in range(8)
        for arguments in (
            ["-i", str(slot), "-pl", str(300 + slot)],
            ["--standin-set", str(node.path), str(slot), f"vbios_version=V{slot}"],
        )
    ]
    assert [call.wait(timeout=60) for call in calls] == [0] * 16
    rows = node.query("power.limit,vbios_version")
    assert rows == [[f"{300 + slot}.00 W", f"V{slot}"] for slot in range(8)]


# --- a node's Python ------------------------------------------------------------------------------


def test_the_script_is_one_file_of_old_python_and_quick(node: Node) -> None:
    source = SCRIPT.read_text()
    assert source.startswith("#!/usr/bin/python3 -IS\n")
    assert os.access(SCRIPT, os.X_OK)
    tree = ast.parse(source, feature_version=(3, 9))
    imported = {
        alias.name
        for statement in ast.walk(tree)
        if isinstance(statement, ast.Import)
        for alias in statement.names
    }
    assert imported <= {"json", "os", "sys", "time", "hashlib", "difflib", "fcntl"}
    before = os.times()
    for _ in range(5):
        node.query("index,uuid,enforced.power.limit")
    after = os.times()
    used = after.children_user + after.children_system
    used -= before.children_user + before.children_system
    assert used / 5 < 0.1
