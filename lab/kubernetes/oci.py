"""Container images of one layer, made from files of this machine, and kept by content.

The form is that of the OCI image specification 1.1 (image-spec: config.md, layer.md, manifest.md).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab import places
from lab.removal import remove_tree

# Increase this when a change below changes the result: it is part of the cache key.
RECIPE = "1"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CREATED = "1970-01-01T00:00:00Z"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Image:
    """One image; its name as a pod names it, without the tag."""

    name: str
    tag: str
    files: Mapping[str, bytes | Path] = field(default_factory=dict)
    """Path -> content, or a file with it, whose path changes when the content does. All are
    programs that everyone may run."""
    links: Mapping[str, str] = field(default_factory=dict)
    tree: Path | None = None
    """A folder with more files, whose path changes when its content does."""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    """More variables, as NAME=VALUE."""
    user: str = ""

    @property
    def repository(self) -> str:
        """Its name without the registry's host: that is what a mirror is asked for."""
        return self.name.partition("/")[2]


@dataclass(frozen=True)
class Blob:
    """Content with its type, as a manifest describes it."""

    media_type: str
    file: Path

    @property
    def digest(self) -> str:
        """Return sha256 and a colon, then the digest, which is the file's name."""
        return f"sha256:{self.file.name}"

    def described(self) -> dict[str, object]:
        """Return the OCI descriptor."""
        size = self.file.stat().st_size
        return {"mediaType": self.media_type, "digest": self.digest, "size": size}


@dataclass(frozen=True)
class Artifact:
    """An image or a chart, ready for a registry."""

    repository: str
    tag: str
    blobs: tuple[Blob, ...]
    manifest: bytes

    @property
    def digest(self) -> str:
        """Return the manifest's digest."""
        return f"sha256:{hashlib.sha256(self.manifest).hexdigest()}"


def artifact(repository: str, tag: str, config: Blob, layers: tuple[Blob, ...]) -> Artifact:
    """Return what a registry gets: the blobs and a manifest that names them."""
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.described(),
        "layers": [layer.described() for layer in layers],
    }
    return Artifact(repository, tag, (config, *layers), json.dumps(manifest, indent=1).encode())


def write_blob(folder: Path, media_type: str, content: bytes) -> Blob:
    """Write content to a file that is named by its digest."""
    path = folder / hashlib.sha256(content).hexdigest()
    path.write_bytes(content)
    return Blob(media_type, path)


def ensure(image: Image) -> Artifact:
    """Return an image as a registry takes it; make it if it does not exist."""
    key = hashlib.sha256(f"{RECIPE}\0{image!r}".encode()).hexdigest()[:12]
    cache = places.cache_folder() / "kubernetes" / "images"
    folder = cache / f"{image.name.rpartition('/')[2]}_{image.tag}_{key}"
    if not folder.is_dir():
        unfinished = cache / f".{folder.name}"
        remove_tree(unfinished)
        unfinished.mkdir(parents=True)
        plain, packed = _layer(image)
        layer = write_blob(unfinished, LAYER, packed)
        config = write_blob(unfinished, CONFIG, _config(image, plain))
        names = {"config": config.file.name, "layer": layer.file.name}
        (unfinished / "index.json").write_text(json.dumps(names))
        os.replace(unfinished, folder)
    os.utime(folder)
    names = json.loads((folder / "index.json").read_text())
    config, layer = Blob(CONFIG, folder / names["config"]), Blob(LAYER, folder / names["layer"])
    return artifact(image.repository, image.tag, config, (layer,))


def _layer(image: Image) -> tuple[str, bytes]:
    """Return the digest of the layer's archive, and the compressed archive."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as out:
        if image.tree is not None:
            out.add(image.tree, arcname=".", filter=_without_owner)
        for folder in _folders(image):
            out.addfile(_entry(folder, tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755))
        for name, content in sorted(image.files.items()):
            data = content.read_bytes() if isinstance(content, Path) else content
            entry = _entry(name, tarfile.REGTYPE, 0o755)
            entry.size = len(data)
            out.addfile(entry, io.BytesIO(data))
        for name, target in sorted(image.links.items()):
            entry = _entry(name, tarfile.SYMTYPE, 0o777)
            entry.linkname = target
            out.addfile(entry)
    plain = archive.getvalue()
    # Level 1: every node unpacks it, and none keeps it for long.
    return hashlib.sha256(plain).hexdigest(), gzip.compress(plain, 1, mtime=0)


def _folders(image: Image) -> list[str]:
    """Return the folders that the tree does not have, parents first."""
    wanted = {"tmp"}
    for name in (*image.files, *image.links):
        wanted |= {str(parent) for parent in Path(name).parents if str(parent) != "."}
    tree = image.tree
    return [one for one in sorted(wanted) if tree is None or not (tree / one).exists()]


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = kind, mode
    return entry


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Drop device files, owners and times."""
    if not (entry.isreg() or entry.isdir() or entry.issym() or entry.islnk()):
        return None
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def _config(image: Image, plain: str) -> bytes:
    running: dict[str, object] = {"Env": [PATH, *image.environment], "WorkingDir": "/"}
    if image.entrypoint:
        running["Entrypoint"] = list(image.entrypoint)
    if image.command:
        running["Cmd"] = list(image.command)
    if image.user:
        running["User"] = image.user
    return json.dumps(
        {
            "created": CREATED,
            "architecture": "amd64",
            "os": "linux",
            "config": running,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{plain}"]},
            "history": [{"created": CREATED, "created_by": "lockstep lab"}],
        },
        indent=1,
    ).encode()
