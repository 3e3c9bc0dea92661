"""Packages under the names of the Kubernetes project's repository (pkgs.k8s.io), programs real.

Which file lies in which package, dependencies and units follow kubernetes/release,
cmd/krel/templates/latest: kubeadm.spec, kubelet.spec, kubernetes-cni.spec, metadata.yaml. Texts of
units as in the packages' source, cmd/krel/templates of the same project, and in Kubernetes'
documentation ("Configuring each kubelet in your cluster using kubeadm").
"""

from __future__ import annotations

from lab.kubernetes import families
from lab.programs import build
from lab.standins.package import Package

UNIT = "kubelet.service"
UNIT_TEXT = """[Unit]
Description=kubelet: The Kubernetes Node Agent
Documentation=https://kubernetes.io/docs/
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10

[Install]
WantedBy=multi-user.target
"""
DROP_IN = "usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf"
KUBECONFIGS = (
    "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf"
    " --kubeconfig=/etc/kubernetes/kubelet.conf"
)
DROP_IN_TEXT = f"""[Service]
Environment="KUBELET_KUBECONFIG_ARGS={KUBECONFIGS}"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS \
$KUBELET_EXTRA_ARGS
"""
# Debian's helpers, as deb-systemd-helper(1p) has them. The package enables the unit, and does not
# start it: kubeadm does.
SCRIPTS = {
    "postinst": f"""
if [ "$1" = configure ]; then
    deb-systemd-helper unmask {UNIT} >/dev/null
    if deb-systemd-helper --quiet was-enabled {UNIT}; then
        deb-systemd-helper enable {UNIT} >/dev/null
    else
        deb-systemd-helper update-state {UNIT} >/dev/null
    fi
    if [ -d /run/systemd/system ]; then
        systemctl --system daemon-reload
    fi
fi
""",
    "prerm": f"""
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    deb-systemd-invoke stop {UNIT} >/dev/null
fi
""",
    "postrm": f"""
if [ "$1" = purge ]; then
    deb-systemd-helper purge {UNIT} >/dev/null
    deb-systemd-helper unmask {UNIT} >/dev/null
elif [ "$1" = remove ]; then
    deb-systemd-helper mask {UNIT} >/dev/null
fi
if [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload
fi
""",
}
REVISION = "1.1"
"""As the project's repository has it: 1.34.4-1.1."""


def of_release(series: str) -> list[Package]:
    """Return the packages in the repository of a minor release; build the programs if necessary.

    Args:
        series: the minor release: "1.34".

    Raises:
        LabError: a build failed.
    """
    family = families.KUBERNETES[series]
    programs = build.ensure(family).programs()
    version = f"{family.version}-{REVISION}"
    description = "built from its Go module for Lockstep's lab"
    plugins = build.ensure(families.CNI_PLUGINS).programs()
    crictl = build.ensure(families.WITH_CRICTL).programs()["crictl"]
    helm = build.ensure(families.HELM).programs()["helm"]
    return [
        Package(
            "kubelet",
            version,
            files={
                "usr/bin/kubelet": programs["kubelet"],
                f"usr/lib/systemd/system/{UNIT}": UNIT_TEXT,
                "etc/default/kubelet": "KUBELET_EXTRA_ARGS=\n",
                "etc/kubernetes/manifests/.kubelet-keep": "",
                "var/lib/kubelet/.kubelet-keep": "",
            },
            depends="kubernetes-cni (>= 1.2.0), mount, util-linux",
            scripts=SCRIPTS,
            description=f"Node agent for Kubernetes clusters, {description}",
        ),
        Package(
            "kubeadm",
            version,
            files={"usr/bin/kubeadm": programs["kubeadm"], DROP_IN: DROP_IN_TEXT},
            description=f"Command-line utility for administering a cluster, {description}",
        ),
        Package(
            "kubectl",
            version,
            files={"usr/bin/kubectl": programs["kubectl"]},
            description=f"Command-line utility for interacting with a cluster, {description}",
        ),
        Package(
            "cri-tools",
            f"{families.WITH_CRICTL.version_of(families.CRI_TOOLS)}-{REVISION}",
            files={"usr/bin/crictl": crictl},
            description=f"Command-line utility for container runtimes, {description}",
        ),
        Package(
            "kubernetes-cni",
            f"{families.CNI_PLUGINS.version}-{REVISION}",
            files={f"opt/cni/bin/{name}": path for name, path in plugins.items()},
            description=f"Network plugins, {description}",
        ),
        # From Helm's own repository in production.
        Package(
            "helm",
            f"{families.HELM.version}-1",
            files={"usr/bin/helm": helm},
            description=f"Package manager for Kubernetes, {description}",
        ),
    ]
