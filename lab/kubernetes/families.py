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
    " -X sigs.k8s.io/cri-tools/pkg/version.Version={sigs.k8s.io/cri-tools}"
)


def _kubernetes(series: str) -> Family:
    return Family(
        _FOLDER / f"kubernetes_{series.replace('.', '_')}",
        "k8s.io/kubernetes",
        _LINKER,
        sources=("build/pause/linux/pause.c",),
    )


KUBERNETES = {series: _kubernetes(series) for series in ("1.34",)}
"""Minor release -> its programs, with crictl."""
CRI_TOOLS = "sigs.k8s.io/cri-tools"
ETCD = Family(_FOLDER / "etcd", "go.etcd.io/etcd/server/v3")
COREDNS = Family(_FOLDER / "coredns", "github.com/coredns/coredns")
CNI_PLUGINS = Family(
    _FOLDER / "cni_plugins",
    "github.com/containernetworking/plugins",
    # As the module's build_linux.sh links it.
    "-X github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion=v{version}",
)
EVERY = (*KUBERNETES.values(), ETCD, COREDNS, CNI_PLUGINS)
