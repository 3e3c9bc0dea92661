"""Settings of GPUs on this machine: the real nvidia-smi over the simulated NVML."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from lockstep.facts.gpus import (
    SETTINGS,
    GpuSettings,
    GpuStates,
    gpu_states,
)
from lockstep.files import managed
from lockstep.plan.nvidia import MIG_MADE
from lockstep.question import Taken, Unreadable
from lockstep.roles.operations.gpu_settings import running_settings
from lockstep.spec.hardware import Gpu
from tests.plan.example import planned
from tests.roles.conftest import Smi
from tests.roles.local import Done, asked, run


@pytest.fixture
def nvidia_smi(smi: Smi, tmp_path: Path) -> Smi:
    """Calls it as a person on the node does."""

    def call(*arguments: str) -> str:
        return subprocess.run(
            [str(tmp_path / "bin" / "nvidia-smi"), *arguments],
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    return call


def gpu(**fields: Any) -> Gpu:
    return Gpu.model_validate({"model": "h200", "count": 2, **fields})


def test_gpus_with_their_settings_need_nothing(smi: Smi) -> None:
    assert run(running_settings, default_w=700.0, gpu=gpu()).commands == 0


@pytest.mark.parametrize(
    ("left", "wanted"),
    [
        ("power.limit=350", gpu()),
        ("persistence_mode=Disabled", gpu()),
        ("compute_mode=Prohibited", gpu()),
        ("compute_mode=Default", gpu(compute_mode="exclusive_process")),
        ("ecc.mode.pending=Disabled", gpu()),
        ("mig.mode.current=Enabled mig.mode.pending=Enabled", gpu()),
        ("power.limit=700", gpu(power_limit_w=500)),
    ],
)
def test_what_a_gpu_left_is_set_again_and_then_nothing_is(smi: Smi, left: str, wanted: Gpu) -> None:
    smi("set", "1", *left.split())
    if left.startswith("power.limit"):
        smi("set", "1", f"enforced.{left}")
    first = run(running_settings, default_w=700.0, gpu=wanted)
    assert first.succeeded
    assert first.commands in (1, 2)  # 2 where the other GPU differs as well
    assert run(running_settings, default_w=700.0, gpu=wanted).commands == 0


def test_a_gpu_with_another_limit_of_its_own_is_left_alone(smi: Smi, tmp_path: Path) -> None:
    """Its firmware, or who changed it, is the matter; half the power is not to be made normal."""
    smi("set", "1", "power.default_limit=350")
    assert run(running_settings, default_w=700.0, gpu=gpu()).commands == 0
    assert boot(script(tmp_path)).returncode == 0
    assert [gpu.enforced_limit_w for gpu in asked(gpu_states()).every] == [700.0, 700.0]


def test_a_limit_that_the_module_holds_down_is_left_alone(smi: Smi) -> None:
    smi("set", "1", "enforced.power.limit=500")
    shares = {"default_w": 700.0, "shares_power": True}
    assert run(running_settings, gpu=gpu(), **shares).commands == 0
    assert run(running_settings, gpu=gpu(power_limit_w=600), **shares).commands > 0


def test_without_a_known_default_each_gpu_gets_its_own(smi: Smi, tmp_path: Path) -> None:
    """Of a model that the catalogue does not have."""
    smi("set", "0", "power.limit=350", "enforced.power.limit=350")
    smi("set", "1", "power.default_limit=500")
    own = gpu(model="NVIDIA X")
    assert run(running_settings, default_w=own.values.default_power_limit_w, gpu=own).commands == 2
    assert [one.enforced_limit_w for one in asked(gpu_states()).every] == [700.0, 500.0]
    assert run(running_settings, default_w=None, gpu=own).commands == 0
    smi("set", "all", "power.limit=300", "enforced.power.limit=300")
    assert boot(script(tmp_path, model="NVIDIA X")).returncode == 0
    assert [one.enforced_limit_w for one in asked(gpu_states()).every] == [700.0, 500.0]


def said(**readings: object) -> GpuStates:
    """What is made of the readings of one healthy GPU, and of those that differ."""
    words = ("Enabled", "Default", "Enabled", "Disabled", "Enabled", "Disabled")
    usual = dict(zip(SETTINGS.values(), (700.0, 700.0, *words), strict=True))
    taken = {name: {"value": {"gpu0": value}} for name, value in usual.items()}
    taken["gpu.uuid"] = {"value": {"gpu0": "GPU-a"}}
    taken |= {"gpu.lost": {"value": {}}, "gpu.mig.devices": {"value": {"gpu0": []}}}
    taken |= {"gpu.processes": {"value": []}}  # type: ignore[dict-item]  # values of other types
    return gpu_states().answer(Taken({**taken, **readings}))


def test_a_gpu_with_a_process_keeps_its_mig_mode_and_ecc() -> None:
    (one,) = said(**{"gpu.processes": {"value": ["GPU-a"]}}).every
    words = ("Enabled", "Default", "Enabled", "Disabled", "Enabled", "Disabled")
    assert one == GpuSettings("GPU-a", 700.0, 700.0, *words, busy=True)


def test_what_a_gpu_does_not_say_is_not_set() -> None:
    unread = {"value": {"gpu0": {"unread": "nvidia-smi: it is [N/A]"}}}
    assert said(**dict.fromkeys(SETTINGS.values(), unread)).every == (GpuSettings("GPU-a"),)


def test_no_answer_is_no_gpus(smi: Smi, tmp_path: Path) -> None:
    assert len(asked(gpu_states()).every) == 2
    (tmp_path / "gpus.ini").unlink()
    assert asked(gpu_states()) == GpuStates(answered=False)
    assert run(running_settings, default_w=700.0, gpu=gpu()).commands == 0


def test_a_driver_that_is_not_loaded_is_not_asked(smi: Smi, tmp_path: Path) -> None:
    """A question would load it, with the options of this moment."""
    (tmp_path / "version").unlink()
    (tmp_path / "bin" / "nvidia-smi").write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    assert asked(gpu_states()) == GpuStates(answered=False)
    assert run(running_settings, default_w=700.0, gpu=gpu()).commands == 0
    assert not (tmp_path / "asked").exists()
    (tmp_path / "version").touch()
    asked(gpu_states())
    assert (tmp_path / "asked").exists()


def test_a_lost_gpu_is_no_answer_and_another_may_need_a_reset(smi: Smi) -> None:
    second = asked(gpu_states()).every[1].uuid
    smi("set", "1", "remapped_rows.pending=Yes")
    smi("set", "0", "lost=values")
    assert asked(gpu_states()) == GpuStates(answered=False, to_reset=(second,))


def test_garbage_is_not_taken_for_a_driver_that_is_not_there() -> None:
    garbage = {"unread": "nvidia-smi: not a row of values: Segmentation fault"}
    with pytest.raises(Unreadable, match="not a row of values"):
        said(**{"gpu.uuid": garbage})


def script(tmp_path: Path, **fields: Any) -> Path:
    def change(wanted: dict[str, Any]) -> None:
        wanted["hardware"]["hgx"]["gpu"].update({"persistence": True, **fields})

    files = managed(planned(change).nodes["worker1"], None, "gpu_settings")
    path = tmp_path / "gpu-settings"
    path.write_bytes(next(f.content for f in files if f.path.endswith("gpu-settings")))
    return path


def boot(path: Path) -> subprocess.CompletedProcess[str]:
    """Run the script as a boot does; what it keeps below /run is kept beside it."""
    own = path.with_name("gpu-settings-here")
    own.write_text(path.read_text().replace("/run/lockstep", str(path.parent / "run")))
    return subprocess.run(["sh", str(own)], capture_output=True, text=True, check=False)


def test_the_boot_script_sets_everything_declared_and_may_run_again(
    smi: Smi, tmp_path: Path
) -> None:
    path = script(tmp_path, power_limit_w=500, clocks_mhz=[1200, 1500], compute_mode="prohibited")
    for _ in range(2):
        done = boot(path)
        assert (done.returncode, done.stderr) == (0, "")
    assert [(g.enforced_limit_w, g.compute_mode) for g in asked(gpu_states()).every] == [
        (500, "Prohibited")
    ] * 2
    assert (
        run(
            running_settings, default_w=700.0, gpu=gpu(power_limit_w=500, compute_mode="prohibited")
        ).commands
        == 0
    )


def test_the_boot_script_brings_back_the_gpus_own_defaults(smi: Smi, tmp_path: Path) -> None:
    smi("set", "0", "power.limit=350", "enforced.power.limit=350", "persistence_mode=Disabled")
    assert boot(script(tmp_path)).returncode == 0
    assert run(running_settings, default_w=700.0, gpu=gpu()).commands == 0


def test_the_boot_script_says_what_it_could_not_set(
    smi: Smi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKSTEP_NVML_EUID", "1000")
    done = boot(script(tmp_path, power_limit_w=500))
    assert done.returncode == 1
    for gpu in asked(gpu_states()).every:
        assert f"nvidia-smi -i {gpu.uuid} -pl 500: " in done.stderr


WAITS = """\
#!/bin/sh
# The first GPU answers when all is done on the other one: it hangs for who takes them in turn.
case "$*" in
*"$FIRST -pm"*)
    for i in $(seq 100); do [ ! -e "$DONE" ] || exec "$SMI" "$@"; sleep 0.1; done; exit 1 ;;
*"$SECOND -c"*) "$SMI" "$@" && touch "$DONE" ;;
*) exec "$SMI" "$@" ;;
esac
"""


def test_no_gpu_waits_for_another(
    smi: Smi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (gpu.uuid for gpu in asked(gpu_states()).every)
    program = tmp_path / "bin" / "nvidia-smi"
    real = program.rename(tmp_path / "real")
    names = {"FIRST": first, "SECOND": second, "SMI": str(real), "DONE": str(tmp_path / "done")}
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    program.write_text(WAITS)
    program.chmod(0o755)
    done = boot(script(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")


GOES_ON = """\
#!/bin/sh
# As drivers from 570 on: a dead GPU refuses only what it is asked itself. 550 refuses -i for all.
case "$*" in
*"{dead} -"*) echo "Unable to determine the device handle for GPU1: 0000:43:00.0: GPU is lost."
    exit 15 ;;
esac
exec {real} "$@"
"""


@pytest.mark.parametrize("power", [{}, {"power_limit_w": 500}])
def test_a_dead_gpu_keeps_no_other_from_its_settings(
    smi: Smi, tmp_path: Path, power: dict[str, float]
) -> None:
    smi("set", "1", "power.limit=350", "enforced.power.limit=350", "persistence_mode=Disabled")
    program = tmp_path / "bin" / "nvidia-smi"
    dead = asked(gpu_states()).every[0].uuid
    program.write_text(GOES_ON.format(dead=dead, real=program.rename(tmp_path / "real")))
    program.chmod(0o755)
    done = boot(script(tmp_path, **power))
    assert (done.returncode, "is lost" in done.stderr) == (1, True)
    other = asked(gpu_states()).every[1]
    assert (other.enforced_limit_w, other.persistence) == (
        power.get("power_limit_w", 700.0),
        "Enabled",
    )


DIVIDED = ("3g.71gb", "2g.35gb", "2g.35gb")


def layouts() -> list[tuple[str, ...]]:
    return [gpu.mig_devices for gpu in asked(gpu_states()).every]


def divide(wanted: Gpu) -> Done:
    return run(running_settings, default_w=700.0, gpu=wanted)


def test_gpus_are_divided_by_the_deploy_or_at_boot_and_then_nothing_is_done(
    smi: Smi, tmp_path: Path
) -> None:
    wanted = gpu(mig=DIVIDED)
    assert divide(wanted).commands == 4, "mode and devices of two GPUs"
    assert layouts() == [tuple(sorted(DIVIDED))] * 2
    assert divide(wanted).commands == 0
    smi("boot")
    assert layouts() == [(), ()]
    for _ in range(2):
        done = boot(script(tmp_path, mig=DIVIDED))
        assert (done.returncode, done.stderr) == (0, "")
        assert layouts() == [tuple(sorted(DIVIDED))] * 2
    assert divide(wanted).commands == 0


def test_what_a_gpu_lacks_is_added_beside_what_is_there(nvidia_smi: Smi) -> None:
    wanted = gpu(mig=DIVIDED)
    divide(wanted)
    # | 1  MIG 2g.35gb  14  3  0:2 |: GPU, name, profile, instance, placement
    listed = nvidia_smi("mig", "-i", "1", "-lgi").splitlines()
    instance = next(line.split()[5] for line in listed if "2g.35gb" in line)
    nvidia_smi("mig", "-i", "1", "-gi", instance, "-dci")
    nvidia_smi("mig", "-i", "1", "-gi", instance, "-dgi")
    assert layouts()[1] == ("2g.35gb", "3g.71gb")
    assert divide(wanted).commands == 1
    assert layouts() == [tuple(sorted(DIVIDED))] * 2
    assert divide(wanted).commands == 0


def test_what_is_not_declared_stays_until_the_rollout(smi: Smi, nvidia_smi: Smi) -> None:
    nvidia_smi("-i", "1", "-mig", "1")
    nvidia_smi("mig", "-i", "1", "-cgi", "1g.18gb", "-C")
    wanted = gpu(mig=DIVIDED)
    assert divide(wanted).commands == 2, "the other GPU"
    assert layouts() == [tuple(sorted(DIVIDED)), ("1g.18gb",)]
    assert divide(wanted).commands == 0


def test_a_mode_that_waits_for_a_reset_is_not_asked_for_again(smi: Smi) -> None:
    for index in ("0", "1"):
        smi("set", index, "mig.mode.pending=Enabled")
    assert divide(gpu(mig=DIVIDED)).commands == 0


def test_what_slurmd_looks_at_is_what_the_boot_script_touches(tmp_path: Path) -> None:
    assert f"touch {MIG_MADE}" in script(tmp_path, mig=DIVIDED).read_text()
    assert "mig-made" not in script(tmp_path).read_text()


@pytest.mark.parametrize(
    ("change", "asks"),
    [
        ("remapped_rows.pending=Yes", True),
        ("ecc.errors.uncorrected.volatile.total=2", True),
        ("ecc.errors.corrected.volatile.total=2", False),
        ("remapped_rows.failure=Yes", False),
    ],
)
def test_a_gpu_says_that_it_waits_for_a_reset(smi: Smi, change: str, asks: bool) -> None:
    assert asked(gpu_states()).to_reset == ()
    smi("set", "1", change)
    state = asked(gpu_states())
    assert state.to_reset == ((state.every[1].uuid,) if asks else ())


@pytest.mark.parametrize(
    ("action", "asks"),
    [
        ("None", False),
        ("Reset", True),
        ("Reboot", True),
        ("Drain and Reset", True),
        ("Drain P2P", False),
    ],
)
def test_a_recovery_action_says_that_it_waits_for_a_reset(action: str, asks: bool) -> None:
    """Branch 550 has none of them, so this starts from the reading."""
    state = said(**{"gpu.recovery_action": {"value": {"gpu0": action}}})
    assert state.to_reset == (("GPU-a",) if asks else ())


def test_a_driver_without_recovery_actions_still_says_what_it_knows() -> None:
    unknown = {"unread": "not available on this driver: gpu_recovery_action"}
    waiting = {"value": {"gpu0": "Yes"}}
    readings = {"gpu.recovery_action": unknown, "gpu.remapped.pending": waiting}
    assert said(**readings).to_reset == ("GPU-a",)
