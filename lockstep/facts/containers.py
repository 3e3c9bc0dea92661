"""Questions about container engines and job containers (enroot, pyxis)."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from lockstep.node.readers.containers import CRI_NAMESPACE as CRI_NAMESPACE
from lockstep.plan.job_containers import PYXIS_OPTION, SLURM_LOADS
from lockstep.question import Question, Taken, question


@question("CDI", "cdi.current")
def cdi_is_current(taken: Taken) -> bool:
    """Ask whether the CDI specification is up to date.

    The specification lists devices and the driver's libraries with their versions. If it is
    outdated, containers get fewer GPUs or none.
    """
    return bool(taken["cdi.current"])


@question("CDI refusal", "cdi.refused")
def cdi_refused(taken: Taken) -> str:
    """Ask why nvidia-ctk cannot generate a CDI specification; "" if it can."""
    return str(taken["cdi.refused"])


def has_image(engine: str, image: str) -> Question[bool]:
    """Ask whether a container engine has an image; False for Docker if Docker is not running."""
    asked = f"{engine} {image}"
    return Question(
        f"image in {engine}",
        ("containers.images",),
        lambda taken: bool(taken.item("containers.images", asked)),
        {"images": (asked,)},
    )


@question("Docker", "docker.live_restore")
def docker_ends_containers(taken: Taken) -> bool:
    """Ask whether Docker is running and would stop its containers if it were restarted."""
    return bool(taken["docker.live_restore"] == "false")


def loads(plugin: str) -> str:
    """Return a shell command that fails with Slurm's message if Slurm cannot load a plugin."""
    tried = SLURM_LOADS.format(new='"$line"')
    return (
        f'line="$(mktemp)"; echo {shlex.quote(f"required {plugin}")} > "$line"; '
        f'( {tried} ); status=$?; rm "$line"; exit $status'
    )


def slurm_loads(plugin: str) -> Question[bool]:
    """Ask whether the installed Slurm can load a plugin."""
    asked = f"{plugin} {PYXIS_OPTION}"
    return Question(
        "Slurm plugin",
        ("slurm.plugin_loads",),
        lambda taken: bool(taken.item("slurm.plugin_loads", asked)),
        {"plugin_options": (asked,)},
    )


def folders_open_to_all(folders: Iterable[str]) -> Question[frozenset[str]]:
    """Ask which of these folders let every user create subfolders."""
    asked = tuple(folders)

    def answer(taken: Taken) -> frozenset[str]:
        found = {folder: taken.item("files", folder) for folder in asked}
        open_to_all = {"other": "a folder", "mode": "1777", "user": "root"}.items()
        return frozenset(folder for folder in asked if open_to_all <= found[folder].items())

    return Question("folders", ("files",), answer, {"files": asked})
