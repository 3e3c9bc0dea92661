"""The types of a description's Kubernetes, the scheduler that runs jobs as pods.

Names follow Kubernetes' own: kubeadm's ClusterConfiguration (v1beta4) and KubeletConfiguration
(v1beta1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from lockstep.spec.fields import (
    Address,
    DomainName,
    Model,
    Network_,
    Upstream,
    Uri,
    matching,
)
from lockstep.spec.kubernetes_control import Certificates, Snapshots
from lockstep.spec.kubernetes_gpus import KubernetesGpus
from lockstep.spec.kubernetes_objects import (
    Audit,
    Namespace,
    ObjectName,
    PriorityClass,
    User,
    VolumeFolder,
)

SERIES = ("1.33", "1.34")
"""The minor versions whose settings were looked up, and tried in the lab."""


PACKAGES = ("kubeadm", "kubectl", "kubelet")
"""Packages that have Kubernetes' version."""


ImageTag = Annotated[
    str,
    matching(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", "a tag of an image, such as 3.10.1"),
]
"""As the OCI Distribution Specification has it (Pulling manifests, reference)."""


class ImageTags(Model):
    """Tags of the images that do not have Kubernetes' version; None: kubeadm's own choice."""

    etcd: ImageTag | None = None
    """Tag of registry.k8s.io/etcd."""
    coredns: ImageTag | None = None
    """Tag of registry.k8s.io/coredns/coredns."""
    pause: ImageTag = "3.10.1"
    """Tag of registry.k8s.io/pause, which containerd starts for each pod."""


class KubeletSettings(Model):
    """Settings of the kubelets that do not follow from the hardware (KubeletConfiguration)."""

    max_pods: Annotated[int, Field(ge=1, le=1000)] = 110
    """Pods of a node (maxPods)."""
    topology_policy: Literal["none", "best-effort", "restricted", "single-numa-node"] = "restricted"
    """Which pods a node admits whose CPUs, memory and GPUs are on different NUMA nodes
    (topologyManagerPolicy). "single-numa-node" refuses pods with all GPUs of a node."""
    image_gc_high_percent: Annotated[int, Field(ge=2, le=100)] = 85
    """Use of the disk, in percent, from which unused images are removed."""
    image_gc_low_percent: Annotated[int, Field(ge=1, le=99)] = 80
    """Use of the disk, in percent, down to which unused images are removed."""
    log_max_size_mib: Annotated[int, Field(ge=1, le=1 << 20)] = 50
    """Size of a container's log, in MiB, from which a new file begins (containerLogMaxSize)."""
    log_max_files: Annotated[int, Field(ge=2, le=100)] = 5
    """Files of a container's log that are kept (containerLogMaxFiles)."""


class Kubernetes(Model):
    """Settings of Kubernetes, which kubeadm installs."""

    kind: Literal["kubernetes"]
    """The scheduler."""
    version: Upstream
    """Version of Kubernetes, such as 1.34.4: of its packages and of its images."""
    pod_prefix: Network_
    """The network of all pods. Each node has a part of it: ``nodes[].pods``, or with ``network``
    "site" a /64 (IPv4: /24) from kube-controller-manager."""
    service_prefix: Network_
    """The network of the Services' addresses (serviceSubnet): at most 2^20 addresses, such as a
    /108 or a /12."""
    dns_domain: DomainName = "cluster.local"
    """DNS domain of the Services (dnsDomain)."""
    api_port: Annotated[int, Field(ge=1, le=65535)] = 6443
    """TCP port of the API server."""
    virtual_address: Address | None = None
    """Address of the API server in the management network. It moves between the heads that run the
    control plane; required if there are several."""
    network: Literal["routed", "site"] = "routed"
    """The network of the pods. "routed": each node routes to its pods (CNI plugin ptp), and has a
    static route to the pods of each other node. "site": the site installs a CNI plugin itself."""
    registry_mirror: Uri | None = None
    """Address of a registry that has the images of all other registries under their own names;
    None: nodes pull from the registries themselves."""
    images: ImageTags = ImageTags()
    """Tags of images."""
    system_memory_mib: Annotated[int, Field(ge=0, le=1 << 32)] = 1024
    """Memory of each node, in MiB, that pods do not get (systemReserved, and reservedMemory of the
    NUMA nodes). 100 MiB of it are the kubelet's threshold for evicting pods."""
    kubelet: KubeletSettings = KubeletSettings()
    """Settings of the kubelets."""
    gpus: KubernetesGpus = KubernetesGpus()
    """How pods get NVIDIA's GPUs."""
    namespaces: tuple[Namespace, ...] = ()
    """Namespaces that Lockstep makes. A deploy deletes none."""
    users: tuple[User, ...] = ()
    """Users, and what they may do."""
    priority_classes: Mapping[ObjectName, PriorityClass] = Field(default_factory=dict)
    """Name -> how important pods with it are."""
    storage_path: VolumeFolder | None = None
    """Folder of each node, on its scratch disk, for volumes of pods: the default storage class
    "local-path" makes them there. None: there is no default storage class."""
    audit: Audit | None = Audit()
    """The audit log of the API servers; None: there is none."""
    certificates: Certificates = Certificates()
    """Certificates of the control plane."""
    snapshots: Snapshots | None = Snapshots()
    """Snapshots of etcd; None: none are made."""

    @property
    def minor_version(self) -> str:
        """The version without its last number, such as 1.34; repositories and policies have it."""
        return ".".join(self.version.split(".")[:2])
