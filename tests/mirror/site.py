"""A small cluster, and real signed repositories that have its packages."""

from __future__ import annotations

import gzip
import hashlib
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from pprint import pformat
from tempfile import TemporaryDirectory
from typing import Any

from lab import repository
from lab.standins.package import Package
from lockstep.inventory import planned
from lockstep.mirror.needs import kinds
from lockstep.plan import ClusterPlan
from lockstep.roles import declared
from lockstep.spec import load

DRIVER = "580.95.05"
MISSING = [name for name in ("apt-get", "dpkg-deb", "gpg") if shutil.which(name) is None]
"""Programs that the tests need and this machine lacks."""


def description(**software: Any) -> dict[str, Any]:
    gpu = {"model": "h200", "count": 8}
    machine = {"sockets": 1, "cores_per_socket": 8, "memory_mib": 32000}
    return {
        "name": "isle",
        "networks": {"management": {"prefix": "fd00:1::/64"}},
        "hardware": {"plain": machine, "hgx": {**machine, "gpu": gpu}},
        "nodes": [
            {
                "name": "head1",
                "role": "head",
                "hardware": "plain",
                "management": "fd00:1::1",
                "runs": ["slurm_controller", "slurm_accounting"],
            },
            {
                "name": "worker[1-4]",
                "role": "worker",
                "hardware": "hgx",
                "management": "fd00:1::101",
            },
        ],
        "os": {"release": "debian_13"},
        "scheduler": {"kind": "slurm"},
        "software": software,
    }


def software(uri: str, key: str, driver: str = DRIVER, **repository: Any) -> dict[str, Any]:
    return {
        "repositories": [{"name": "site", "uri": uri, "suite": "/", "key": key, **repository}],
        "nvidia": {"driver": driver},
        "versions": {"munge": "0.5.16-1"},
    }


def plan_of(wanted: dict[str, Any]) -> ClusterPlan:
    cluster, problems = load(wanted, declared())
    assert problems == []
    assert cluster is not None
    return planned(cluster)


def inventory(folder: Path, wanted: dict[str, Any]) -> str:
    path = folder / "isle.py"
    path.write_text(
        "from lockstep.inventory import plan_or_exit\n"
        f"_cluster = plan_or_exit({pformat(wanted)}, __file__)\n"
        'head = _cluster.group("head")\nworker = _cluster.group("worker")\n',
        encoding="utf-8",
    )
    return str(path)


def packages(wanted: dict[str, Any], *more: Package) -> list[Package]:
    """A package for each one that the description needs, at a version that it accepts."""
    found = {
        one.package: Package(one.package, one.version.replace("*", "1"))
        for kind in kinds(plan_of(wanted))
        for one in kind.packages
    }
    return [*{**found, **{one.name: one for one in more}}.values()]


class Signer:
    """A key in a folder of gpg."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.key = repository.sign("", home)[1]

    def flat(self, wanted: Iterable[Package], folder: Path) -> Path:
        """Build a flat repository, as NVIDIA's are."""
        folder.mkdir(parents=True)
        repository.build(wanted, folder, self.home)
        return folder

    def suite(self, flat: Path, folder: Path, fields: str = "") -> Path:
        """Make a repository with a suite, as Debian's are, of the packages of a flat one."""
        index = (flat / "Packages").read_bytes().replace(b"Filename: ./", b"Filename: pool/main/")
        (folder / "pool/main").mkdir(parents=True)
        for file in flat.glob("*.deb"):
            shutil.copy(file, folder / "pool/main")
        suite = folder / "dists/trixie"
        (suite / "main/binary-amd64").mkdir(parents=True)
        release = f"Suite: trixie\nCodename: trixie\n{fields}Architectures: amd64\nSHA256:\n"
        for name, content in (
            ("main/binary-amd64/Packages", index),
            ("main/binary-amd64/Packages.gz", gzip.compress(index, mtime=0)),
            ("main/i18n/Translation-en", b""),
        ):
            if name.endswith(".gz"):  # as in Debian's archive: the other ones are only listed
                (suite / name).write_bytes(content)
            release += f" {hashlib.sha256(content).hexdigest()} {len(content)} {name}\n"
        (suite / "InRelease").write_text(repository.sign(release, self.home)[0])
        return folder


@contextmanager
def signing() -> Iterator[Signer]:
    """Give a key in a folder of its own, with a short path, which its agent's socket needs.

    gpg's agents delete their sockets a moment after ``gpgconf --kill``: TemporaryDirectory, unlike
    rmtree, accepts a file that is gone meanwhile.
    """
    with TemporaryDirectory(prefix="gpg-") as home:
        yield Signer(Path(home))
