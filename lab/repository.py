"""A signed repository of simulated vendor packages that Debian's archive does not provide.

A flat repository (`Suites: /`), built once from ``lab.standins``. The caching proxy of
all labs serves it with a host name that only the proxy knows.
"""

import gzip
import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from tempfile import TemporaryDirectory

from lab import places, proxy, state
from lab.commands import run
from lab.package_versions import version_key
from lab.removal import remove_tree
from lab.standins import packages, toolkit
from lab.standins.package import Package

# Increase this when a change below changes the result: it is part of the cache key.
RECIPE = "1"
KEY_OWNER = "Lockstep lab repository"


@dataclass(frozen=True)
class Repository:
    """A finished repository."""

    folder: Path

    @property
    def uri(self) -> str:
        """URI for apt in a node."""
        served = self.folder.relative_to(proxy.repositories())
        return f"http://{proxy.REPOSITORY_HOST}/{served}/"

    @property
    def key(self) -> Path:
        """The public key, ASCII-armored."""
        return self.folder / "key.asc"

    @property
    def versions(self) -> Path:
        """JSON file: package name -> versions, newest last."""
        return self.folder / "versions.json"


def ensure() -> Repository:
    """Return the repository; build it if it does not exist.

    Raises:
        LabError: the build failed.
    """
    with places.locked(".repository"):
        served = proxy.repositories()
        repository = _ensure([*packages.packages(), *toolkit.packages()], served)
        _delete_outdated(repository)
    return repository


def ensure_beside(own: Repository, several: Iterable[list[Package]]) -> list[Repository]:
    """Return one repository for each list of packages; build the missing ones.

    They lie in the folder of the lab's own repository, and go with it.

    Args:
        own: the lab's own repository, of ``ensure``.
        several: the packages of each.

    Raises:
        LabError: a build failed.
    """
    with places.locked(".repository"):
        found = [_ensure(wanted, own.folder) for wanted in several]
        in_use = {one.folder for one in found}
        for lab in places.known_labs():
            in_use |= {Path(key).parent for key in state.repository_keys(lab)}
        for folder in own.folder.iterdir():
            if folder.is_dir() and folder not in in_use:
                remove_tree(folder)
    return found


def _ensure(wanted: list[Package], served: Path) -> Repository:
    repository = Repository(served / _digest(wanted))
    unfinished = served / ".unfinished"
    remove_tree(unfinished)
    if not repository.folder.is_dir():
        unfinished.mkdir(parents=True)
        build(wanted, unfinished, places.cache_folder() / "repository" / "gnupg")
        os.replace(unfinished, repository.folder)
    return repository


def _digest(wanted: list[Package]) -> str:
    key = hashlib.sha256(RECIPE.encode())
    for package in wanted:
        key.update(repr(package).encode() + b"\0")
    return key.hexdigest()[:12]


def _delete_outdated(current: Repository) -> None:
    in_use = {current.folder}
    for lab in places.known_labs():
        used = state.read_to_remove(lab)
        # The state of another version may have no repository.
        key = getattr(used, "repository_key", "")
        if key:
            in_use.add(Path(key).parent)
    for folder in current.folder.parent.iterdir():
        if folder not in in_use:
            remove_tree(folder)


def build(wanted: Iterable[Package], folder: Path, home: Path) -> None:
    """Build a signed repository in an existing folder.

    Args:
        wanted: its packages.
        folder: the folder.
        home: folder of gpg with the key that signs it; the key is generated once.

    Raises:
        LabError: a program failed.
    """
    folder.chmod(0o755)  # the proxy runs as another user
    index = ""
    versions: dict[str, list[str]] = {}
    with TemporaryDirectory() as trees:
        for package in wanted:
            tree = Path(trees) / f"{package.name}_{package.version}"
            index += _build_package(package, tree, folder) + "\n"
            versions.setdefault(package.name, []).append(package.version)
    lists = {"Packages": index.encode(), "Packages.gz": gzip.compress(index.encode(), mtime=0)}
    for name, content in lists.items():
        _write(folder / name, content)
    release = (
        "Origin: Lockstep lab\nLabel: Lockstep lab\n"
        f"Date: {formatdate(usegmt=True)}\nArchitectures: amd64\nSHA256:\n"
    )
    for name, content in lists.items():
        release += f" {hashlib.sha256(content).hexdigest()} {len(content)} {name}\n"
    signed, key = sign(release, home)
    _write(folder / "InRelease", signed.encode())
    _write(folder / "key.asc", key.encode())
    ordered = {name: sorted(found, key=version_key) for name, found in versions.items()}
    _write(folder / "versions.json", json.dumps(ordered, indent=0, sort_keys=True).encode())


def _write(path: Path, content: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def _build_package(package: Package, tree: Path, folder: Path) -> str:
    """Build one package in a folder; return its entry for the index."""
    for path, content in package.files.items():
        data = content.read_bytes() if isinstance(content, Path) else content
        data = data.encode() if isinstance(data, str) else data
        program = "/bin/" in path or "/hooks.d/" in path or path.endswith("/nvidia-smi")
        _write(tree / path, data, 0o755 if program else 0o644)
    for path, target in package.links.items():
        (tree / path).symlink_to(target)
    _write(tree / "DEBIAN/control", package.control.encode())
    for name, script in package.scripts.items():
        _write(tree / "DEBIAN" / name, script.encode(), 0o755)
    conffiles = [f"/{path}\n" for path in package.files if path.startswith("etc/")]
    if conffiles:
        _write(tree / "DEBIAN/conffiles", "".join(conffiles).encode())
    for inside in (tree, *tree.rglob("*")):
        if inside.is_dir():
            inside.chmod(0o755)
    version = package.version.rpartition(":")[2]
    file = folder / f"{package.name}_{version}_amd64.deb"
    run(
        ["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", str(tree), str(file)],
        what=f"building the simulated package {file.name}",
    )
    file.chmod(0o644)
    built = file.read_bytes()
    return (
        f"{package.control}Filename: ./{file.name}\nSize: {len(built)}\n"
        f"SHA256: {hashlib.sha256(built).hexdigest()}\n"
    )


def sign(release: str, home: Path) -> tuple[str, str]:
    """Return the signed text and the public key; the key is generated once.

    Args:
        release: the text.
        home: folder of gpg; its path must be short, because gpg's agent has a socket in it.

    Raises:
        LabError: gpg failed.
    """
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--pinentry-mode", "loopback"]
    try:
        if KEY_OWNER not in run([*gpg, "--list-secret-keys"], what="reading the repository's key"):
            run(
                [*gpg, "--passphrase", "", "--quick-gen-key", KEY_OWNER, "ed25519", "sign", "0"],
                what="generating the repository's key",
            )
        clear = [*gpg, "--passphrase", "", "--armor", "--clear-sign"]
        signed = run(clear, what="signing the repository", stdin=release)
        key = run([*gpg, "--armor", "--export", KEY_OWNER], what="reading the repository's key")
    finally:
        run(["gpgconf", "--homedir", str(home), "--kill", "all"], what="stopping gpg's agent")
    return signed, key
