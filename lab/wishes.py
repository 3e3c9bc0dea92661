"""Whether an ``up`` fits the lab that exists, and what a lab can be."""

from pathlib import Path

from lab import archive, repository
from lab.errors import WrongUseError
from lab.state import Kernel, LabState

MOST_WORKERS = 50
HEADS = (1, 3)
"""Numbers of heads that a lab of inventories/lab.py can have."""
DEFAULT_WORKERS = 2
DEFAULT_OS = "debian_13"


def count_heads(lab: LabState) -> int:
    """Return the number of heads."""
    return sum(node.role == "head" for node in lab.nodes)


def count_workers(lab: LabState) -> int:
    """Return the number of workers."""
    return sum(node.role == "worker" for node in lab.nodes)


def check_wishes(
    workers: int | None, os_name: str | None, heads: int | None = None, described: bool = False
) -> None:
    """Check what does not depend on an existing lab.

    Raises:
        WrongUseError: it is not so.
    """
    if workers is not None and not 1 <= workers <= MOST_WORKERS:
        raise WrongUseError(
            f"--workers {workers}: expected 1 to {MOST_WORKERS}",
            f"lockstep lab up --workers {DEFAULT_WORKERS}",
        )
    if heads is not None and (heads not in HEADS or described):
        raise WrongUseError(
            f"--heads {heads}: expected {' or '.join(map(str, HEADS))}, and no --description, "
            "which has heads of its own",
            f"lockstep lab up --heads {HEADS[-1]} --kubernetes 1.34",
        )
    if os_name is not None:
        archive.suite_of(os_name)


def check_against(
    lab: LabState,
    workers: int | None,
    os_name: str | None,
    kernel: Kernel | None,
    kubernetes: list[str] | None,
    heads: int | None = None,
) -> None:
    """Check that an existing lab has the system, kernel, releases and heads, and not more workers.

    Raises:
        WrongUseError: it is not so.
    """
    again = f"lockstep lab --name {lab.name} down, then up again"
    if os_name is not None and os_name != lab.os:
        raise WrongUseError(
            f"lab {lab.name!r} runs {lab.os}; --os {os_name} requires all nodes to be recreated",
            again,
        )
    if kernel is not None and kernel != lab.kernel:
        raise WrongUseError(
            f"lab {lab.name!r} has nodes with kernel {lab.kernel!r}; --kernel {kernel} requires "
            "all nodes to be recreated",
            again,
        )
    releases = [one.series for one in lab.kubernetes.releases] if lab.kubernetes else []
    if kubernetes is not None and kubernetes != releases:
        raise WrongUseError(
            f"lab {lab.name!r} has {' and '.join(releases) or 'no release'} of Kubernetes; "
            f"--kubernetes {','.join(kubernetes)} requires all nodes to be recreated",
            again,
        )
    if heads not in (None, count_heads(lab)):
        raise WrongUseError(
            f"lab {lab.name!r} has {count_heads(lab)} heads; --heads {heads} requires all nodes "
            "to be recreated",
            again,
        )
    if workers is not None and workers < count_workers(lab):
        raise WrongUseError(
            f"lab {lab.name!r} has {count_workers(lab)} workers; up cannot reduce them to "
            f"{workers}",
            again,
        )


def check_kubernetes(os_name: str, kubernetes: list[str] | None) -> None:
    """Check that the lab's Kubernetes runs on an operating system.

    Raises:
        WrongUseError: it does not.
    """
    if kubernetes and os_name != DEFAULT_OS:
        # Debian 12 has containerd 1.6, which has no CDI.
        raise WrongUseError(
            f"--kubernetes {','.join(kubernetes)}: expected --os {DEFAULT_OS}, not {os_name}",
            f"lockstep lab up --kubernetes {kubernetes[-1]} --os {DEFAULT_OS}",
        )


def check_description(lab: LabState, workers: int | None, inventory: str | None) -> None:
    """Check that an existing lab has the cluster of an inventory file.

    Raises:
        WrongUseError: it is not so.
    """
    again = f"lockstep lab --name {lab.name} down, then up again"
    if inventory is not None and str(Path(inventory).resolve()) != lab.description:
        raise WrongUseError(
            f"lab {lab.name!r} has the cluster of {lab.description or 'inventories/lab.py'}; "
            f"--description {inventory} requires all nodes to be recreated",
            again,
        )
    if lab.description is not None and workers not in (None, count_workers(lab)):
        raise WrongUseError(
            f"lab {lab.name!r} has {count_workers(lab)} workers of {lab.description}; up cannot "
            f"change their number to {workers}",
            again,
        )


def check_stand_ins(lab: LabState) -> None:
    """Check that the software that an existing lab uses is still there.

    Raises:
        WrongUseError: it is not so.
    """
    folders = [Path(one.key).parent for one in lab.every_repository()]
    served = all(folder.is_dir() for folder in folders)
    if not served or lab.repository_uri != repository.ensure().uri:
        raise WrongUseError(
            f"lab {lab.name!r} was created with other simulated software than this checkout has",
            f"lockstep lab --name {lab.name} down, then up again",
        )
