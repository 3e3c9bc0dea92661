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
PAUSES = {"1.33": "3.10", "1.34": "3.10.1"}
"""Minor release -> PauseVersion in constants.go of its kubeadm, which pulls this image."""
PAUSE = PAUSES["1.34"]
"""What containerd starts for each pod."""
BINARIES = "usr/local/bin"
TREE_TIMEOUT_S = 300
ETCD = "registry.k8s.io/etcd"
COREDNS = "registry.k8s.io/coredns/coredns"
DEVICE_PLUGIN = "nvcr.io/nvidia/k8s-device-plugin"
NODE_FEATURE_DISCOVERY = "registry.k8s.io/nfd/node-feature-discovery"
KUBE_STATE_METRICS = "registry.k8s.io/kube-state-metrics/kube-state-metrics"
LOCAL_PATH_PROVISIONER = "docker.io/rancher/local-path-provisioner"
BUSYBOX = "docker.io/library/busybox"
DEBIAN = "docker.io/library/debian"
SLIM = (
    *("base-files", "bash", "bsdutils", "coreutils", "dash", "debianutils", "diffutils"),
    *("findutils", "grep", "gzip", "hostname", "libc-bin", "mawk", "mount", "ncurses-base"),
    *("procps", "sed", "tar", "util-linux"),
)
"""Packages of the simulated Debian, without those of dpkg and apt."""
ACCOUNTS = {
    "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": b"root:x:0:\nnogroup:x:65534:\n",
}


def tags() -> dict[str, str]:
    """Return the tag of each image that does not have Kubernetes' own version."""
    return {
        "registry.k8s.io/pause": PAUSE,
        ETCD: f"{families.ETCD.version}-0",
        COREDNS: f"v{families.COREDNS.version}",
        DEVICE_PLUGIN: f"v{families.DEVICE_PLUGIN.version}",
        NODE_FEATURE_DISCOVERY: f"v{families.NODE_FEATURE_DISCOVERY.version}",
        KUBE_STATE_METRICS: f"v{families.KUBE_STATE_METRICS.version}",
        LOCAL_PATH_PROVISIONER: f"v{families.LOCAL_PATH_PROVISIONER.version}",
        BUSYBOX: "1.37",
        DEBIAN: "trixie-slim",
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
        # Without netbase, nft lists protocols as numbers, and kube-proxy takes what it has listed
        # for left over: when it starts a second time, it deletes the elements of all Services.
        tree=tree(system, ("nftables", "netbase", "base-files")),
        command=("kube-proxy",),
    )
    for version in sorted({PAUSES[series], PAUSE}):
        pause = {"pause": _pause(built.source("build/pause/linux/pause.c"), version)}
        user = "65535:65535"
        yield Image("registry.k8s.io/pause", version, pause, entrypoint=("/pause",), user=user)


def of_every_release(system: SystemImage) -> Iterator[Image]:
    """Yield the images that do not depend on the release; build the programs if necessary.

    Args:
        system: the operating system of the nodes, from whose archive programs in C come.

    Raises:
        LabError: a build failed.
    """
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
    yield from _of_gpus(system)
    metrics = build.ensure(families.KUBE_STATE_METRICS).programs()
    yield Image(
        KUBE_STATE_METRICS,
        tags()[KUBE_STATE_METRICS],
        # The module's program is named by its version.
        {"kube-state-metrics": metrics.popitem()[1]},
        entrypoint=("/kube-state-metrics", "--port=8080", "--telemetry-port=8081"),
        user="65534",
    )
    busybox = tree(system, ("busybox-static", "base-files"))
    applets = run([str(busybox / "usr/bin/busybox"), "--list"], what="listing busybox's commands")
    links = {f"usr/bin/{name}": "busybox" for name in applets.split() if name != "busybox"}
    yield Image(BUSYBOX, tags()[BUSYBOX], ACCOUNTS, links=links, tree=busybox, command=("sh",))
    paths = build.ensure(families.LOCAL_PATH_PROVISIONER).programs()["local-path-provisioner"]
    yield Image(
        LOCAL_PATH_PROVISIONER,
        tags()[LOCAL_PATH_PROVISIONER],
        {**ACCOUNTS, "usr/bin/local-path-provisioner": paths},
        links=links,
        tree=busybox,
        command=("local-path-provisioner",),
    )
    yield Image(DEBIAN, tags()[DEBIAN], ACCOUNTS, tree=tree(system, SLIM), command=("bash",))


def _of_gpus(system: SystemImage) -> Iterator[Image]:
    """Yield the images of NVIDIA's device plugin and of node-feature-discovery."""
    plugin = build.ensure(families.DEVICE_PLUGIN).programs()
    yield Image(
        DEVICE_PLUGIN,
        tags()[DEVICE_PLUGIN],
        {**ACCOUNTS, **{f"usr/bin/{name}": path for name, path in plugin.items()}},
        links={"usr/bin/sh": "busybox"},
        tree=tree(system, ("base-files", "busybox-static", "libc6")),
        entrypoint=("nvidia-device-plugin",),
        environment=(
            "NVIDIA_DISABLE_REQUIRE=true",
            "NVIDIA_VISIBLE_DEVICES=all",
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        ),
    )
    discovery = build.ensure(families.NODE_FEATURE_DISCOVERY)
    example = "deployment/components/worker-config/nfd-worker.conf.example"
    yield Image(
        NODE_FEATURE_DISCOVERY,
        tags()[NODE_FEATURE_DISCOVERY],
        {
            **{f"usr/bin/{name}": path for name, path in discovery.programs().items()},
            "etc/kubernetes/node-feature-discovery/nfd-worker.conf": discovery.source(example),
        },
        environment=("GRPC_GO_LOG_SEVERITY_LEVEL=INFO",),
        user="65534:65534",
    )


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


def _pause(source: Path, version: str) -> bytes:
    """Return the program of the pause image, compiled as build/pause/Makefile does."""
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder, "pause")
        options = ["-Os", "-Wall", "-Werror", "-static", "-s", f"-DVERSION=v{version}"]
        run(["gcc", *options, "-o", str(built), str(source)], what="compiling pause")
        return built.read_bytes()
