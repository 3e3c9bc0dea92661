"""The families of Go programs that a lab with Kubernetes needs, in ``lab/programs``."""

from pathlib import Path

from lab.programs import build
from lab.programs.build import Family

_FOLDER = Path(build.__file__).parent
_VERSION = "k8s.io/component-base/version"
# As hack/lib/version.sh of k8s.io/kubernetes links them. Without the commit, which a module does
# not say.
_LINKER = (
    f"-X {_VERSION}.gitVersion=v{{version}} -X {_VERSION}.gitMajor={{major}}"
    f" -X {_VERSION}.gitMinor={{minor}} -X {_VERSION}.gitTreeState=clean"
)
CRI_TOOLS = "sigs.k8s.io/cri-tools"


def _kubernetes(series: str, more: str = "") -> Family:
    return Family(
        _FOLDER / f"kubernetes_{series.replace('.', '_')}",
        "k8s.io/kubernetes",
        _LINKER + more,
        sources=("build/pause/linux/pause.c",),
    )


# crictl is part of this family alone: its release for 1.33 is not to be had as a module, and 1.34.0
# does not compile with the libraries of 1.33.
WITH_CRICTL = _kubernetes("1.34", f" -X {CRI_TOOLS}/pkg/version.Version={{{CRI_TOOLS}}}")
KUBERNETES = {"1.33": _kubernetes("1.33"), "1.34": WITH_CRICTL}
"""Minor release -> its programs."""
ETCD = Family(_FOLDER / "etcd", "go.etcd.io/etcd/server/v3")
COREDNS = Family(_FOLDER / "coredns", "github.com/coredns/coredns")
CNI_PLUGINS = Family(
    _FOLDER / "cni_plugins",
    "github.com/containernetworking/plugins",
    # As the module's build_linux.sh links it.
    "-X github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion=v{version}",
)
_PLUGIN = "github.com/NVIDIA/k8s-device-plugin"
CHART = "deployments/helm/nvidia-device-plugin"
DEVICE_PLUGIN = Family(
    _FOLDER / "nvidia_k8s_device_plugin",
    _PLUGIN,
    # As the module's Makefile links them. Without its commit, which a module does not say.
    "'-extldflags=-Wl,--export-dynamic -Wl,--unresolved-symbols=ignore-in-object-files'"
    f" -X {_PLUGIN}/internal/info.version=v{{version}}",
    cgo=True,
    sources=(CHART,),
)
_NFD = "sigs.k8s.io/node-feature-discovery"
NODE_FEATURE_DISCOVERY = Family(
    # The version of the subchart in the device plugin's chart.
    _FOLDER / "node_feature_discovery",
    _NFD,
    # As the module's Makefile links them for containers.
    f"-X {_NFD}/pkg/version.version=v{{version}} -X {_NFD}/pkg/utils/hostpath.pathPrefix=/host-",
    sources=("deployment/components/worker-config/nfd-worker.conf.example",),
)
LOCAL_PATH_PROVISIONER = Family(
    _FOLDER / "local_path_provisioner",
    "github.com/rancher/local-path-provisioner",
    "-X main.VERSION=v{version}",
)
KUBE_STATE_METRICS = Family(
    _FOLDER / "kube_state_metrics",
    "k8s.io/kube-state-metrics/v2",
    "-X github.com/prometheus/common/version.Version=v{version}",
)
HELM = Family(
    _FOLDER / "helm",
    "helm.sh/helm/v4",
    "-X helm.sh/helm/v4/internal/version.version=v{version}"
    " -X helm.sh/helm/v4/internal/version.metadata=",
)
EVERY = (
    *KUBERNETES.values(),
    *(ETCD, COREDNS, CNI_PLUGINS, HELM),
    *(DEVICE_PLUGIN, NODE_FEATURE_DISCOVERY, LOCAL_PATH_PROVISIONER, KUBE_STATE_METRICS),
)
