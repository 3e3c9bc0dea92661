"""The container images of a lab with Kubernetes, under their usual names.

Names and tags as cmd/kubeadm/app/constants/constants.go and the manifests of each project name
them; entry points as in their Dockerfiles. Each image has one layer.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lab import archive, places, proxy
from lab.commands import run
from lab.image import Image as SystemImage
from lab.kubernetes import families
from lab.kubernetes.oci import Image
from lab.programs import build
from lab.removal import remove_tree

CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
PAUSE = "3.10.1"
"""PauseVersion in constants.go of kubeadm 1.34."""
BINARIES = "usr/local/bin"
TREE_TIMEOUT_S = 300
ETCD = "registry.k8s.io/etcd"
COREDNS = "registry.k8s.io/coredns/coredns"


def tags() -> dict[str, str]:
    """Return the tag of each image that does not have Kubernetes' own version."""
    return {
        "registry.k8s.io/pause": PAUSE,
        ETCD: f"{families.ETCD.version}-0",
        COREDNS: f"v{families.COREDNS.version}",
    }


def of_release(series: str, system: SystemImage) -> Iterator[Image]:
    """Yield the images of a minor release; build the programs if necessary.

    Args:
        series: the minor release: "1.34".
        system: the operating system of the nodes, from whose archive programs in C come.

    Raises:
        LabError: a build failed.
    """
    family = families.KUBERNETES[series]
    built = build.ensure(family)
    programs, tag = built.programs(), f"v{family.version}"
    for name in CONTROL_PLANE:
        yield Image(f"registry.k8s.io/{name}", tag, {f"{BINARIES}/{name}": programs[name]})
    # cluster/images/kube-proxy: on distroless-iptables, which has nft.
    yield Image(
        "registry.k8s.io/kube-proxy",
        tag,
        {f"{BINARIES}/kube-proxy": programs["kube-proxy"]},
        tree=tree(system, ("nftables", "base-files")),
        command=("kube-proxy",),
    )
    pause = _pause(built.source("build/pause/linux/pause.c"))
    yield Image(
        "registry.k8s.io/pause", PAUSE, {"pause": pause}, entrypoint=("/pause",), user="65535:65535"
    )


def of_every_release() -> Iterator[Image]:
    """Yield the images that do not depend on the release."""
    etcd = build.ensure(families.ETCD).programs()
    yield Image(
        ETCD,
        tags()[ETCD],
        # The module's program of the server is named by its folder.
        {
            f"{BINARIES}/etcd": etcd["server"],
            f"{BINARIES}/etcdctl": etcd["etcdctl"],
            f"{BINARIES}/etcdutl": etcd["etcdutl"],
        },
    )
    coredns = build.ensure(families.COREDNS).programs()["coredns"]
    yield Image(COREDNS, tags()[COREDNS], {"coredns": coredns}, entrypoint=("/coredns",))


def tree(system: SystemImage, packages: tuple[str, ...]) -> Path:
    """Return a folder with packages of the nodes' archive and their dependencies, unpacked.

    Args:
        system: the image of the operating system.
        packages: their names.

    Raises:
        LabError: mmdebstrap failed.
    """
    named = hashlib.sha256(f"{system.folder.name}\0{packages!r}".encode()).hexdigest()[:12]
    cache = places.cache_folder() / "kubernetes" / "trees"
    folder = cache / f"{packages[0]}_{named}"
    with places.locked(".trees"):
        if not folder.is_dir():
            unfinished = cache / ".unfinished"
            remove_tree(unfinished)
            unfinished.mkdir(parents=True)
            _unpack(system, packages, unfinished)
            os.replace(unfinished, folder)
    return folder


def _unpack(system: SystemImage, packages: tuple[str, ...], folder: Path) -> None:
    os_name = system.folder.name.partition("-")[0]
    listed = folder.with_name(".sources")
    sources, _ = archive.find_sources(os_name, proxy.URI)
    listed.write_text("\n".join(source.stanza() for source in sources))
    options = ["--mode=root", "--format=directory", "--variant=extract", "--quiet"]
    excluded = ("man", "doc", "locale", "info", "lintian", "bug")
    run(
        [
            *("mmdebstrap", *options, f"--include={','.join(packages)}"),
            f"--components={archive.COMPONENTS.replace(' ', ',')}",
            f'--aptopt=Acquire::http::Proxy "{proxy.URI}";',
            *(f"--aptopt={option}" for option in archive.host_acquire_options()),
            *(archive.suite_of(os_name), str(folder), *([str(listed)] if sources else [])),
        ],
        what=f"unpacking {', '.join(packages)} for container images",
        timeout=TREE_TIMEOUT_S,
    )
    for name in excluded:
        remove_tree(folder / "usr/share" / name)
    for name in ("var/lib/apt", "var/cache", "var/lib/dpkg", "etc/apt"):
        remove_tree(folder / name)


def _pause(source: Path) -> bytes:
    """Return the program of the pause image, compiled as build/pause/Makefile does."""
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder, "pause")
        options = ["-Os", "-Wall", "-Werror", "-static", "-s", f"-DVERSION=v{PAUSE}"]
        run(["gcc", *options, "-o", str(built), str(source)], what="compiling pause")
        return built.read_bytes()
