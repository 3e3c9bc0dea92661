"""What a lab with Kubernetes needs before its machines boot: packages and a filled registry."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

from lab import repository
from lab.errors import WrongUseError
from lab.image import Image as SystemImage
from lab.kubernetes import charts, families, images, oci, packages, registry
from lab.repository import Repository
from lab.state import Kubernetes, KubernetesRelease, Served


def read_series(text: str) -> list[str]:
    """Return the minor releases of a command line, oldest first.

    Args:
        text: "1.34" or "1.33,1.34".

    Raises:
        WrongUseError: the lab has no programs of a release.
    """
    known = list(families.KUBERNETES)
    wanted = [part.strip() for part in text.split(",")]
    for one in wanted:
        if one not in known:
            raise WrongUseError(
                f"--kubernetes {text}: expected minor releases, with commas between them, of: "
                f"{', '.join(known)}",
                f"lockstep lab up --kubernetes {known[-1]}",
            )
    return [one for one in known if one in wanted]


def prepare(series: list[str], system: SystemImage, own: Repository) -> Kubernetes:
    """Build packages and images, fill the registry, and return what a description needs of them.

    The registry must run.

    Args:
        series: minor releases, oldest first.
        system: the operating system of the nodes.
        own: the lab's own repository.

    Raises:
        LabError: a build failed, or the registry refused an image.
    """
    repositories = repository.ensure_beside(own, [packages.of_release(one) for one in series])
    wanted = [image for one in series for image in images.of_release(one, system)]
    wanted += images.of_every_release(system)
    with ThreadPoolExecutor(max_workers=2) as pool:
        registry.fill(itertools.chain(pool.map(oci.ensure, wanted), [charts.device_plugin()]))
    releases = [
        KubernetesRelease(
            series=one,
            version=families.KUBERNETES[one].version,
            packages=Served(uri=made.uri, key=str(made.key), versions=str(made.versions)),
        )
        for one, made in zip(series, repositories, strict=True)
    ]
    return Kubernetes(
        releases=releases,
        registry=registry.URI,
        images=images.tags(),
        charts={charts.DEVICE_PLUGIN: f"oci://{registry.ADDRESS}/charts/{charts.DEVICE_PLUGIN}"},
        versions={
            "etcd": families.ETCD.version,
            "coredns": families.COREDNS.version,
            "helm": families.HELM.version,
            "kubernetes-cni": families.CNI_PLUGINS.version,
            "nvidia-device-plugin": families.DEVICE_PLUGIN.version,
            "node-feature-discovery": families.NODE_FEATURE_DISCOVERY.version,
            "kube-state-metrics": families.KUBE_STATE_METRICS.version,
            "local-path-provisioner": families.LOCAL_PATH_PROVISIONER.version,
        },
    )
