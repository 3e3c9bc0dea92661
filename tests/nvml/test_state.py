"""The state file of the simulated GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.nvml import fields, state
from tests.nvml.programs import SimulatedNode


@pytest.fixture
def node(tmp_path: Path) -> SimulatedNode:
    return SimulatedNode(tmp_path)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    status = state.main(list(words))
    return status, capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[gpu 0]\n", "[gpu 0\n", "[line  9]"),
        ("[gpu 0]\n", "[gpu x]\n", "section [gpu x]: expected [node] or [gpu 0] to [gpu 63]"),
        ("[gpu 1]\n", "[gpu 0]\n", "section 'gpu 0' already exists"),
        ("driver = ok\n", "driver = maybe\n", '[node]: "maybe" for driver: expected one of ok'),
        (
            "\npower.limit = 700.00",
            "\npower.limit = much",
            '[gpu 0]: "much" for power.limit: expected',
        ),
        ("lost = no", "lost = perhaps", '[gpu 0]: "perhaps" for lost: expected one of no, yes'),
    ],
)
def test_a_malformed_file_is_refused_with_its_place(
    node: SimulatedNode, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    text = node.state.read_text(encoding="utf-8")
    assert old in text
    node.state.write_text(text.replace(old, new, 1), encoding="utf-8")
    status, error = refused(capsys, "check", str(node.state))
    assert status in (fields.EXIT_USAGE, fields.EXIT_UNKNOWN_NAME)
    assert said in error
    assert str(node.state) in error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("0", "power.limti=350"), 'unknown field "power.limti"; similar: power.limit'),
        (("9", "power.limit=350"), 'unknown GPU "9"; expected 0 to 1, or "all"'),
        (("0", "power.limit=350 kW"), '"350 kW" for power.limit: expected a number'),
        (("0", "pstate=P99"), '"P99" for pstate: expected one of P0, P1'),
        (("0", "uuid=GPU 1"), "for uuid: expected GPU-"),
        (("0", f"name={'x' * 4001}"), "expected at most 4000 printable"),
        (("0", "name=a\tb"), "expected at most 4000 printable"),
        (("0", "power.limit=error:NONE"), "expected error: and one of NOT_SUPPORTED"),
        (("0", "nvlink.36.crc=1"), 'unknown field "nvlink.36.crc"'),
        (("node", "drivers=ok"), 'unknown setting of the node "drivers"; similar: driver'),
    ],
)
def test_an_unknown_name_or_value_changes_nothing(
    node: SimulatedNode, capsys: pytest.CaptureFixture[str], words: tuple[str, str], said: str
) -> None:
    """Nor does a right setting before the wrong one."""
    before = node.state.read_text(encoding="utf-8")
    target, wrong = words
    right = "hang_s=1" if target == "node" else "power.limit=300"
    status, error = refused(capsys, "set", str(node.state), target, right, wrong)
    assert status == fields.EXIT_UNKNOWN_NAME
    assert said in error
    assert node.state.read_text(encoding="utf-8") == before


def asked(node: SimulatedNode, *fields: str) -> list[str]:
    rows = node.smi(f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits").stdout
    return rows.splitlines()


def test_settings_by_nvidia_smi_are_in_the_state_and_lost_at_a_boot(node: SimulatedNode) -> None:
    for words in (
        ("-pl", "400"),
        ("-lgc", "500,900"),
        ("-c", "2"),
        ("-e", "0"),
        ("-i", "0", "-mig", "1"),
    ):
        assert node.smi(*words).returncode == 0
    limits = ("power.limit", "enforced.power.limit")
    names = (*limits, "clocks.sm", "compute_mode", "ecc.mode.current", "mig.mode.current")
    assert asked(node, *names) == [
        "400.00, 400.00, 500, Prohibited, Enabled, Enabled",
        "400.00, 400.00, 500, Prohibited, Enabled, Disabled",
    ]
    assert locked(node) == ["500,900"] * 2
    state.boot(str(node.state), "550.163.01")
    assert (
        asked(node, *names, "persistence_mode")
        == ["700.00, 700.00, 345, Default, Disabled, Disabled, Disabled"] * 2
    )
    assert locked(node) == ["none"] * 2


def locked(node: SimulatedNode) -> list[str]:
    return [gpu["clocks.locked"] for gpu in state.slots(state.read(str(node.state)))]


def test_a_boot_loads_another_driver(node: SimulatedNode) -> None:
    state.boot(str(node.state), "535.261.03")
    loaded = state.read(str(node.state))[fields.NODE]
    assert (loaded["driver_version"], loaded["cuda_version"]) == ("535.261.03", "12.2")


def test_mig_mode_survives_a_boot_on_ampere_only(tmp_path: Path) -> None:
    ampere = SimulatedNode(tmp_path, "a100")
    ampere.smi("-mig", "1")
    ampere.smi("mig", "-cgi", "19", "-C")
    state.boot(str(ampere.state))
    assert asked(ampere, "mig.mode.current") == ["Enabled"] * 2
    assert "MIG" not in ampere.smi("-L").stdout


def test_a_limit_of_the_bmc_survives_a_boot(node: SimulatedNode) -> None:
    node.set("1", "enforced.power.limit=350")
    state.boot(str(node.state))
    assert asked(node, "enforced.power.limit") == ["700.00", "350.00"]


def test_what_changed_is_shown_and_reset(
    node: SimulatedNode, capsys: pytest.CaptureFixture[str]
) -> None:
    node.set("1", "power.limit=350 W", "lost=yes")
    state.main(["remove", str(node.state), "0"])
    state.main(["show", str(node.state)])
    shown = capsys.readouterr().out
    assert "gpu 0 (removed)" in shown
    assert "gpu 1 (index 0, lost)" in shown
    assert "  power.limit=350.00 (was 700.00)" in shown
    state.boot(str(node.state), "535.261.03")
    state.reset(str(node.state))
    state.main(["show", str(node.state)])
    shown = capsys.readouterr().out
    assert "was" not in shown
    assert "driver_version=535.261.03\n" in shown, "it is no setting"


def test_a_user_may_change_nothing(node: SimulatedNode) -> None:
    before = node.state.read_text(encoding="utf-8")
    refused = node.smi("-pl", "400", LOCKSTEP_NVML_EUID="1000")
    assert (refused.returncode, "Insufficient Permissions" in refused.stdout) == (4, True)
    assert node.state.read_text(encoding="utf-8") == before


@pytest.mark.parametrize(
    ("driver", "status", "said"),
    [
        ("not_loaded", 9, "couldn't communicate with the NVIDIA driver"),
        ("mismatch", 18, "Driver/library version mismatch"),
        ("no_devices", 6, "No devices were found"),
    ],
)
def test_states_of_the_driver(node: SimulatedNode, driver: str, status: int, said: str) -> None:
    node.set("node", f"driver={driver}")
    done = node.smi()
    assert (done.returncode, said in done.stdout) == (status, True), done.stdout
