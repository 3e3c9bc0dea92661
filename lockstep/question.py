"""Questions that roles ask about a host, answered from its readings. Nothing here needs pyinfra."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Part = tuple[str, str, str]
"""A reading and its subject, such as ("units.started", "units", "munge.service"). The subject is a
request key and a name under that key; both are "" if the reading is about the whole node."""

ABOUT = {
    "files": "files",
    "files.changed": "changed",
    "slurm.plugin_loads": "plugin_options",
    "files.naming": "naming",
    "files.texts": "texts",
    "packages.shipped": "shipped",
    "containers.images": "images",
    "slurm.jobs": "slurm_nodes",
    "slurm.node": "slurm_nodes",
    "os.groups": "groups",
    "units": "units",
    "units.started": "units",
    "sysctl.running": "sysctls",
    "kernel.files": "kernel_files",
    "firewall.rules": "firewall",
    "listeners": "listeners",
    "kubernetes.objects": "manifests",
    "kubernetes.unavailable": "manifests",
    "kubernetes.releases": "releases",
    "kubernetes.manifests": "kubeadm",
    "net.gateway": "gateways",
    "net.persisted": "interfaces",
    "selinux.modules": "selinux_modules",
    "selinux.booleans": "selinux_booleans",
    "selinux.labels": "selinux_labels",
}
"""Reading -> the request key for its subjects. Other readings are about the whole node."""


class Unreadable(Exception):
    """Raised when a node's value could not be read; operations that need it fail on that node only.

    An unread value must not look like an answer, such as "absent".
    """

    def __init__(self, what: str, why: str) -> None:
        """Create the message from what could not be read and the reason.

        Args:
            what: what could not be read: a reading such as ``packages``, a fact, or the node.
            why: the reason, without the node name, such as ``connection lost: ...``.
        """
        super().__init__(f"{what} could not be read: {why}")


class Taken:
    """The readings that were taken on a host."""

    def __init__(self, readings: Mapping[str, Any]) -> None:
        """Store the readings that the program on the node printed."""
        self._readings = readings

    def __getitem__(self, name: str) -> Any:
        """Return the value of a reading.

        Raises:
            Unreadable: the reading was not taken.
        """
        why = self.unread(name)
        if why is not None:
            raise Unreadable(name, why)
        return self._readings[name]["value"]

    def item(self, name: str, *keys: str) -> Any:
        """Return one item of a reading that is a map; further keys select items inside it.

        Raises:
            Unreadable: the reading or the item was not taken.
        """
        entry = self[name]
        for key in keys:
            entry = entry.get(key, {"unread": "not in the node's answer"})
            if isinstance(entry, dict) and entry.keys() == {"unread"}:
                raise Unreadable(": ".join((name, *keys)), str(entry["unread"]))
        return entry

    def known(self, name: str, *keys: str) -> Any:
        """Return what ``item`` returns, or None if the reading or the item was not taken."""
        try:
            return self.item(name, *keys)
        except Unreadable:
            return None

    def unread(self, name: str) -> str | None:
        """Return why a reading was not taken; None if it was taken."""
        reading = self._readings.get(name, {"unread": "not in the node's answer"})
        return None if "value" in reading else str(reading.get("unread"))


@dataclass(frozen=True)
class Question(Generic[T]):
    """A question about a host."""

    name: str
    """Name used in messages, such as ``packages``."""
    readings: tuple[str, ...]
    answer: Callable[[Taken], T]
    """Function that computes the answer from the readings; it may raise ``Unreadable``."""
    about: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Request key -> subjects, for readings that have subjects (``ABOUT``)."""

    def parts(self) -> frozenset[Part]:
        """Return what the answer needs: each reading with all of its subjects."""
        subjects: dict[str, tuple[str, ...]] = {"": ("",), **self.about}
        keys = {reading: ABOUT.get(reading, "") for reading in self.readings}
        return frozenset(
            (reading, key, one) for reading, key in keys.items() for one in subjects.get(key, ())
        )


Questions = Iterable[Question[Any]]


def question(
    name: str, *readings: str
) -> Callable[[Callable[[Taken], T]], Callable[[], Question[T]]]:
    """Decorate a function that computes an answer, so that calling it returns a ``Question``."""
    return lambda answer: wraps(answer)(lambda: Question(name, readings, answer))
