"""Settings of the GPUs on a node, from nvidia-smi."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyinfra.api import FactBase, FactProcessError
from typing_extensions import override

from lockstep.node.readers.driver import DRIVER, PARAMETERS
from lockstep.node.readers.mig import mig_devices
from lockstep.node.readers.reading import Unread
from lockstep.plan.reboot import RECOVERED

CDI_SPEC = "/var/run/cdi/nvidia.yaml"
"""Where nvidia-cdi-refresh.service writes it (NVIDIA/nvidia-container-toolkit)."""
CRI_NAMESPACE = "k8s.io"
"""containerd's namespace of what its CRI knows."""

LOADED = f"[ -r {DRIVER} ]"
"""Without it a question to NVML loads the module (nvidia-modprobe(1)) with its present options."""

FIELDS = (
    "uuid",
    "enforced.power.limit",
    "power.default_limit",
    "persistence_mode",
    "compute_mode",
    "ecc.mode.pending",
    "mig.mode.current",
    "ecc.mode.current",
    "mig.mode.pending",
)
MIG = FIELDS.index("mig.mode.current") + 1
"""Its column, as cut(1) counts."""


@dataclass(frozen=True)
class GpuSettings:
    """One GPU. Limits in watts; words as nvidia-smi prints them; None where it does not say."""

    uuid: str
    enforced_limit_w: float | None
    default_limit_w: float | None
    persistence: str | None
    compute_mode: str | None
    ecc_pending: str | None
    mig: str | None
    ecc: str | None
    mig_pending: str | None
    busy: bool = False
    """A process has a compute context on it."""
    mig_devices: tuple[str, ...] = ()
    """Profiles of what it is divided into, sorted."""


@dataclass(frozen=True)
class Boards:
    """What nvidia-smi says of the GPUs."""

    every: tuple[GpuSettings, ...] = ()
    answered: bool = True
    """False: no answer (no driver, a lost board), so nothing is known of any GPU."""


class Gpus(FactBase[Boards]):
    """Returns the GPUs, and whether nvidia-smi answered at all."""

    ahead_only_if = LOADED

    @override
    def command(self) -> str:
        form = "--format=csv,noheader,nounits"
        # nvidia-smi fails when the driver is not there: an answer, which the role reports.
        return (
            f"{{ boards=$(timeout 30 nvidia-smi --query-gpu={','.join(FIELDS)} {form}) && "
            """printf '%s\\n' "$boards" && """
            f"timeout 30 nvidia-smi --query-compute-apps=gpu_uuid {form} | sed 's/^/busy, /' && "
            # Each call takes its time: only a board in MIG mode has devices to list.
            f"""if printf '%s\\n' "$boards" | cut -d, -f{MIG} | grep -q Enabled; then """
            "listed=$(timeout 30 nvidia-smi -L) && "
            """printf '%s\\n' "$listed" | sed 's/^/listed, /'; fi; } 2>/dev/null || echo unread"""
        )

    @override
    def process(self, output: Iterable[str]) -> Boards:
        lines = [line for line in output if line]  # of no boards nothing is said
        if "unread" in lines:
            return Boards(answered=False)
        listed = [line.removeprefix("listed, ") for line in lines if line.startswith("listed, ")]
        try:
            divided = {uuid: tuple(found) for _, uuid, found in mig_devices("\n".join(listed))}
        except Unread as reason:
            raise FactProcessError(str(reason)) from reason
        rows = [[column.strip() for column in line.split(",")] for line in lines]
        busy = {row[1] for row in rows if row[0] == "busy"}
        boards = []
        for line, row in zip(lines, rows, strict=True):
            if row[0] in ("busy", "listed"):
                continue
            if len(row) != len(FIELDS):
                raise FactProcessError(f"nvidia-smi, unexpected line {line!r}")
            uuid, enforced, default, *words = row
            persistence, compute_mode, ecc_pending, mig, ecc, mig_pending = map(_word, words)
            boards.append(
                GpuSettings(
                    uuid,
                    _watts(enforced),
                    _watts(default),
                    persistence,
                    compute_mode,
                    ecc_pending,
                    mig,
                    ecc,
                    mig_pending,
                    uuid in busy,
                    divided.get(uuid, ()),
                )
            )
        return Boards(tuple(boards))


class BoardsToReset(FactBase[tuple[str, ...]]):
    """Returns the boards that need a reset.

    A row of memory is to be replaced, errors were not corrected since the last one, or the driver
    says so. Asked field by field: one that a driver does not know spoils the whole answer.
    """

    ahead_only_if = LOADED

    @override
    def command(self) -> str:
        asked = (
            f"timeout 30 nvidia-smi --query-gpu=uuid,{field} --format=csv,noheader 2>/dev/null; "
            for field in (
                "remapped_rows.pending",
                "gpu_recovery_action",
                "ecc.errors.uncorrected.volatile.total",
            )
        )
        return "".join(asked) + "echo end"

    @override
    def process(self, output: Iterable[str]) -> tuple[str, ...]:
        rows = (line.partition(", ") for line in output)
        return tuple(
            dict.fromkeys(
                uuid
                for uuid, _, said in rows
                if said in ("Yes", *RECOVERED) or (said.isdigit() and int(said) > 0)
            )
        )


def _watts(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:  # [N/A] and its relatives
        return None


def _word(text: str) -> str | None:
    return None if text.startswith("[") or text == "N/A" else text


class LoadedDriver(FactBase[str]):
    """Returns the version of NVIDIA's loaded kernel module; "" when none is loaded.

    /proc/driver/nvidia/version begins with "NVRM version: NVIDIA UNIX ... Module  550.163.01  ...".
    """

    @override
    def command(self) -> str:
        return (
            "if [ -r /proc/driver/nvidia/version ]; then "
            "sed -n -E '/^NVRM version/s/.* Module( for [^ ]+)? +([0-9.]+).*/\\2/p' "
            "/proc/driver/nvidia/version; else echo none; fi"
        )

    @override
    def process(self, output: Iterable[str]) -> str:
        (version,) = output
        return "" if version == "none" else version


@dataclass(frozen=True)
class LoadedModuleState:
    """NVIDIA's kernel module as it is loaded."""

    flavour: str = ""
    """``open`` or ``proprietary``; "": none is loaded."""
    parameters: Mapping[str, str] = field(default_factory=dict)


class LoadedModule(FactBase[LoadedModuleState]):
    """Returns which of the two modules is loaded, and the parameters that it works with."""

    @override
    def command(self) -> str:
        return (
            f"if [ -r {DRIVER} ]; then grep -m 1 '^NVRM version' {DRIVER}; cat {PARAMETERS}; "
            "else echo none; fi"
        )

    @override
    def process(self, output: Iterable[str]) -> LoadedModuleState:
        version, *lines = output
        if version == "none":
            return LoadedModuleState()
        rows = [line.partition(":") for line in lines]
        return LoadedModuleState(
            "open" if "Open Kernel Module" in version else "proprietary",
            {name: value.strip().strip('"') for name, _, value in rows},
        )


class OlderInitramfs(FactBase[tuple[str, ...]]):
    """Returns the files that are younger than the running kernel's initramfs."""

    @override
    def command(self, files: Iterable[str]) -> str:
        quoted = " ".join(shlex.quote(path) for path in files)
        return (
            'i="/boot/initrd.img-$(uname -r)"; '
            f"for f in {quoted}; do "
            'if [ -e "$i" ] && [ "$f" -nt "$i" ]; then echo "younger $f"; fi; '
            "done; echo end"
        )

    @override
    def process(self, output: Iterable[str]) -> tuple[str, ...]:
        words = [line.split(" ", 1) for line in output]
        return tuple(word[1] for word in words if word[0] == "younger")


class CdiSpecification(FactBase[bool]):
    """Returns whether it is what would be written now.

    It names devices and the driver's libraries by version: an older one gives containers fewer
    boards, or none.
    """

    ahead_only_if = LOADED

    @override
    def command(self) -> str:
        return (
            f"if [ -s {CDI_SPEC} ] && nvidia-ctk cdi generate 2>/dev/null | cmp -s - {CDI_SPEC}; "
            "then echo current; else echo differs; fi"
        )

    @override
    def process(self, output: Iterable[str]) -> bool:
        return list(output) == ["current"]


class CheckImage(FactBase[bool]):
    """Returns whether an engine has the image that the check starts containers from."""

    @override
    def command(self, engine: str, image: str) -> str:
        # Asked at its socket (docker.socket), a Docker that does not run would be started.
        runs = "systemctl is-active --quiet docker.service && " if engine == "docker" else ""
        asked = f"{runs}{engine} image inspect {image} >/dev/null 2>&1"
        if engine == "containerd":
            asked = f'[ -n "$(ctr -n {CRI_NAMESPACE} images ls -q name=={image})" ]'
        return f"if {asked}; then echo yes; else echo no; fi"

    @override
    def process(self, output: Iterable[str]) -> bool:
        return list(output) == ["yes"]


class DockerEndsContainers(FactBase[bool]):
    """Returns whether a Docker runs whose restart would end its containers."""

    @override
    def command(self) -> str:
        return (
            "if systemctl is-active --quiet docker.service; then "
            "docker info --format '{{.LiveRestoreEnabled}}'; else echo stopped; fi"
        )

    @override
    def process(self, output: Iterable[str]) -> bool:
        return list(output) == ["false"]
