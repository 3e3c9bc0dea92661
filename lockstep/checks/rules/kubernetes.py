"""Rules about Kubernetes: what the API server sees of each node, and what the node has itself."""

from __future__ import annotations

from lockstep.checks import kubernetes_views as views
from lockstep.checks.compare import number
from lockstep.checks.context import View
from lockstep.checks.kubernetes_causes import CONTAINERD, KUBECTL, KUBELET, NOT_SEEN, not_asked
from lockstep.checks.rule import (
    CONTROL_PLANE,
    DEPLOY,
    UNREAD,
    WARNING,
    Cause,
    Effect,
    Kind,
    Local,
    Look,
    OnNode,
    Rule,
    Severities,
    Text,
    by_hand,
    by_role,
    each,
    same,
    same_device,
)
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT
from lockstep.plan.kubernetes import KUBELET_DROP_INS
from lockstep.report import Severity

ENDS_SOON_DAYS, ENDS_DAYS = 30, 7


def _ends_soon(view: View, device: str) -> Severity:
    days = view.items("kubernetes.certificates").get(device)
    soon = isinstance(days, int) and days < ENDS_DAYS
    return Severity.ERROR if soon else Severity.WARNING


RULES = (
    Rule(
        id="kubernetes.node",
        claim="Kubernetes can start pods on every worker, and every head is Ready.",
        why=(
            "A node that is not Ready, or that somebody cordoned, costs as much as a working one."
        ),
        blind="Nodes that accept pods and then fail them.",
        source="Kubernetes API, Node: status.conditions, spec.unschedulable",
        reading="kubernetes.nodes",
        look=views.of_entry(views.state),
        expected=same("takes pods"),
        repair=by_hand(
            f"{KUBECTL} describe node {{node}}; fix the cause that it names. If a person cordoned "
            f"the node: {KUBECTL} uncordon {{node}}"
        ),
        tags=views.state_tags,
        applies=views.concerned,
        explained_by=(
            *not_asked("kubernetes.node"),
            *(
                Cause("unit.active", device=unit, of=Effect(tag=views.SILENT))
                for unit in (KUBELET, CONTAINERD)
            ),
            Cause(
                "file.content",
                device="/etc/cni/net.d/10-lockstep.conflist",
                of=Effect(tag=views.SILENT),
            ),
            Cause("os.hostname", of=Effect(tag=views.SILENT)),
            # The node check sets the condition if the node fails these rules (Rule.on_node).
            *(
                Cause(rules, of=Effect(tag=views.OURS))
                for rules in (
                    *("gpu.*", "rdma.*", "driver.*", "hugepages", "memory.at_least"),
                    "kubernetes.gpus",
                )
            ),
        ),
    ),
    Rule(
        id="kubernetes.version",
        claim="Every kubelet runs in the planned version.",
        why=(
            "A kubelet may be older than the API server, but never newer, and only by three minor "
            "versions. A package that was changed without a restart leaves the old program running."
        ),
        blind="Versions of containers; kubernetes.static_pods checks those of the control plane.",
        source="Kubernetes, Version Skew Policy; Node, status.nodeInfo.kubeletVersion",
        reading="kubernetes.nodes",
        look=views.of_entry(lambda view, entry: {"": entry.get("version")}),
        expected=same(lambda view: f"v{view.plan.kubernetes.settings.version}"),
        repair=by_role(
            "kubernetes_node",
            f"{DEPLOY}; if the package has the planned version, on {{node}}: systemctl restart "
            "kubelet",
        ),
        applies=views.concerned,
        explained_by=(
            *not_asked("kubernetes.version"),
            Cause("package.version", device="kubelet"),
        ),
    ),
    Rule(
        id="kubernetes.kubelet_config",
        claim="Every kubelet runs with the settings that the plan has for it.",
        why=("The kubelet reads its files only when it starts, and later files override others."),
        blind="Settings that Lockstep does not set. Kubelets of nodes that are not Ready.",
        source="KubeletConfiguration (v1beta1); the kubelet's /configz",
        reading="kubernetes.kubelet_config",
        look=views.of_entry(views.running, "kubernetes.kubelet_config"),
        expected=each(views.configured),
        repair=by_role(
            "kubernetes_node",
            f"{DEPLOY}; then on {{node}}: systemctl restart kubelet, and look for other files in "
            f"{KUBELET_DROP_INS}",
        ),
        applies=views.concerned,
        explained_by=(
            *not_asked("kubernetes.kubelet_config"),
            Cause("file.content", device=f"{KUBELET_DROP_INS}/50-lockstep.conf"),
            Cause("file.content", device="/etc/default/kubelet"),
        ),
    ),
    Rule(
        id="kubernetes.allocatable",
        claim="Every node offers pods the planned CPUs, huge pages, GPUs and MIG devices.",
        why="What a node does not offer stays idle, and what it lacks makes pods fail.",
        blind="Memory, which memory.at_least checks.",
        source="Kubernetes API, Node: status.allocatable",
        reading="kubernetes.nodes",
        look=views.of_entry(views.allocatable),
        expected=each(views.allocatable_expected),
        text=Text(
            lambda value: f"{number(value):g}" if isinstance(value, float) else f"{value} MiB"
        ),
        repair=by_hand(
            f"{KUBECTL} drain {{node}} --ignore-daemonsets, then on {{node}}: systemctl restart "
            f"kubelet, which looks for CPUs and huge pages when it starts, and: {KUBECTL} uncordon "
            "{node}"
        ),
        applies=views.concerned,
        explained_by=(
            *not_asked("kubernetes.allocatable"),
            Cause("kubernetes.kubelet_config"),
            Cause("cpu.count"),
            Cause("hugepages"),
            Cause("kubernetes.node", of=Effect(device=views.GPU)),
            Cause("kubernetes.releases", at=CONTROL_PLANE, of=Effect(device=views.GPU)),
            *(
                Cause(rule, of=Effect(device=views.GPU))
                for rule in ("gpu.count", "gpu.lost", "gpu.silent", "gpu.xid", "kubernetes.gpus")
            ),
        ),
    ),
    Rule(
        id="kubernetes.gpus",
        claim="NVIDIA's device plugin says of every GPU of the node that it is healthy.",
        why=(
            "The plugin takes a GPU with a fatal Xid away from pods, and does not give it back "
            "before the plugin starts again."
        ),
        blind="GPUs with MIG, and a plugin that does not run: kubernetes.allocatable.",
        source="k8s-device-plugin, internal/plugin/server.go; kubelet_internal_checkpoint",
        reading="kubernetes.gpus",
        look=Look(devices=DEVICES),
        expected=same("healthy"),
        repair=by_hand(
            "drain {node}, read the driver's errors there (journalctl -k -g Xid), and reset "
            f"{{device}} or reboot; after a reset, restart the device plugin {KUBECTL} "
            "-n gpu-operator delete pods --field-selector=spec.nodeName={node}"
        ),
        applies=views.offers_gpus,
        on_node=OnNode(Local.HEALTH),
        explained_by=(
            *UNREAD_WITH_COUNT,
            *same_device("gpu.xid", "gpu.recovery_action", "gpu.silent"),
            Cause("kubernetes.allocatable", device=views.GPU, of=UNREAD),
        ),
    ),
    Rule(
        id="kubernetes.unknown_node",
        claim="Every Node object belongs to a node of the description.",
        why=(
            "Kubernetes goes on planning for a node that is gone: its DaemonSets are never ready, "
            "and Helm waits for them in vain."
        ),
        blind="Whether the machine still runs.",
        source="Kubernetes API, Node; Kubernetes, Nodes",
        reading="kubernetes.nodes",
        look=Look(views.unknown_nodes),
        expected=each(views.unknown_expected),
        severity=WARNING,
        repair=by_hand(
            f"{KUBECTL} delete node {{device}}; on the machine, if it still runs: kubeadm reset "
            "--force. If the description has it without Kubernetes, drain it instead, run pyinfra "
            "-y {inventory} deploys/remove.py --limit {device}, and then delete it; if it is to "
            "stay, add it to the description"
        ),
        applies=views.knows_nodes,
        explained_by=not_asked("kubernetes.unknown_node"),
    ),
    Rule(
        id="kubernetes.labels",
        claim="Every node has the labels of the plan.",
        why="Pods find their nodes by labels.",
        blind="Other labels.",
        source="Kubernetes, Labels and Selectors",
        reading="kubernetes.nodes",
        look=views.of_entry(views.labels_of),
        expected=each(views.labels_expected),
        repair=by_hand(f"{KUBECTL} label --overwrite node {{node}} {{device}}={{expected}}"),
        applies=views.concerned,
        explained_by=not_asked("kubernetes.labels"),
    ),
    Rule(
        id="kubernetes.taints",
        claim="Workers have no taints of persons, and heads keep pods away.",
        why="A forgotten taint keeps pods away; without its taint, a head runs users' pods.",
        blind="Taints that Kubernetes or the node check sets for a node's state: kubernetes.node.",
        source="Kubernetes, Taints and Tolerations; kubeadm init, mark-control-plane",
        reading="kubernetes.nodes",
        look=views.of_entry(views.taints_of),
        expected=same(views.taints_expected),
        severity=WARNING,
        repair=by_hand(f"{KUBECTL} taint node {{node}} KEY:EFFECT- for the taint that is too much"),
        applies=views.concerned,
        explained_by=not_asked("kubernetes.taints"),
    ),
    Rule(
        id="kubernetes.routes",
        claim="Every node has the planned routes to the pods of the other nodes, and no others.",
        why="Without a route, pods of two nodes cannot reach each other.",
        blind="Routes of other programs, and whether the other node answers.",
        source="ip-route(8); the role kubernetes_node",
        reading="kubernetes.routes",
        look=Look(views.route_items),
        expected=each(views.routes_expected),
        repair=by_role(
            "kubernetes_node", "on {node}: systemctl restart lockstep-pod-routes.service"
        ),
        applies=views.routed,
        explained_by=(
            Cause("file.content", device="/etc/lockstep/pod-routes"),
            Cause("unit.active", device="lockstep-pod-routes.service"),
        ),
    ),
    Rule(
        id="kubernetes.certificates",
        claim="No certificate of Kubernetes on the node ends within 30 days.",
        why=(
            "After its end, a kubelet or the control plane is refused, and Kubernetes cannot be "
            "repaired through its own API."
        ),
        blind="The kubelet's own certificate as a server, which nobody verifies.",
        source="Kubernetes, PKI certificates and requirements; RFC 5280 4.1.2.5",
        reading="kubernetes.certificates",
        kind=Kind.ABSOLUTE,
        expected=same(ENDS_SOON_DAYS),
        text=Text(lambda value: f"{value} days left"),
        severity=Severities(Severity.WARNING, of=_ends_soon),
        repair=by_hand(
            "deploy the heads again: the role kubernetes_control_plane renews the certificates of "
            "the control plane; the kubelet of {node} renews its own certificate while it runs"
        ),
        applies=views.concerned,
    ),
    Rule(
        id="kubernetes.control_plane",
        claim="The API server of every head is ready, with the member of etcd on the same head.",
        why=(
            "The others work on behind the virtual address, but the loss of one more can cost "
            "etcd's majority; then nothing can be changed in Kubernetes."
        ),
        blind="The scheduler and the controller manager. Whether the data of etcd is right.",
        source="Kubernetes API health endpoints: /readyz?verbose",
        reading="kubernetes.control_plane",
        expected=same("ready"),
        repair=by_hand(
            "on {node}: crictl ps --all, crictl logs of the container that failed, and journalctl "
            "-u kubelet; then: pyinfra -y {inventory} deploys/{role}.py --limit {node}"
        ),
        applies=views.controls,
        explained_by=(
            Cause("unit.active", device=KUBELET),
            Cause("unit.active", device=CONTAINERD),
            Cause("kubernetes.static_pods", device="etcd"),
            Cause("kubernetes.static_pods", device="kube-apiserver"),
            Cause("kubernetes.manifests", device="kube-apiserver"),
        ),
    ),
    Rule(
        id="kubernetes.static_pods",
        claim="Heads run the planned control plane, and no node has other static pods.",
        why="The kubelet runs whatever is in this folder, without asking the API server.",
        blind="Arguments in the files, which kubernetes.manifests checks.",
        source="Kubernetes, Create static Pods; kubeadm, /etc/kubernetes/manifests",
        reading="kubernetes.static_pods",
        look=Look(views.static_pod_items),
        expected=each(views.static_pods_expected),
        repair=by_hand(
            "on {node}: compare /etc/kubernetes/manifests/{device}.yaml with what kubeadm init "
            "phase writes, and remove what is not yours"
        ),
        applies=views.concerned,
    ),
    Rule(
        id="kubernetes.manifests",
        claim="The static pods of the control plane are as kubeadm's configuration has them.",
        why="An API server without its planned arguments may not encrypt Secrets or log.",
        blind="The manifest of etcd, and a pod that runs with an earlier manifest.",
        source="kubeadm init phase control-plane all --dry-run",
        reading="kubernetes.manifests",
        expected=same("as kubeadm would write it"),
        repair=by_role("kubernetes_control_plane"),
        applies=views.concerned,
    ),
    Rule(
        id="kubernetes.objects",
        claim="Every managed object is as its manifest has it.",
        why="A quota that somebody edited, or CoreDNS without pods, acts on all users at once.",
        blind="Fields that no manifest has, and objects of others.",
        source="Kubernetes, Server-Side Apply; kubectl apply --dry-run=server",
        reading="kubernetes.objects",
        expected=same("as the manifests have it"),
        repair=by_role("kubernetes_objects"),
        applies=views.concerned,
        explained_by=NOT_SEEN,
    ),
    Rule(
        id="kubernetes.unavailable",
        claim="Every Deployment of the manifests, and CoreDNS, has enough available pods.",
        why="Without CoreDNS' pods, no other pod finds a Service by its name.",
        blind=(
            "Deployments of Helm releases, DaemonSets and StatefulSets; the first minute without "
            "pods; a rollout, until Kubernetes gives it up (after ten minutes by default)."
        ),
        source="Kubernetes, Deployment: conditions Available and Progressing",
        reading="kubernetes.unavailable",
        expected=same("enough available pods"),
        repair=by_hand(
            f"{KUBECTL} get pods --all-namespaces -o wide, then kubectl describe pod of those that "
            "are not Running; fix what their events name"
        ),
        applies=views.concerned,
        # A deploy repairs an object that differs, and so its pods; both are unread together.
        explained_by=(*NOT_SEEN, *same_device("kubernetes.objects")),
    ),
    Rule(
        id="kubernetes.releases",
        claim="Every Helm release of Lockstep has the planned chart and values, and its objects.",
        why="Without the device plugin, no pod gets a GPU.",
        blind="Fields that the chart does not set, and releases of others.",
        source="Helm, pkg/storage/driver/secrets.go",
        reading="kubernetes.releases",
        look=Look(views.releases_of),
        expected=each(views.releases_expected),
        repair=by_role("kubernetes_releases"),
        applies=views.concerned,
        explained_by=NOT_SEEN,
    ),
    Rule(
        id="kubernetes.kube_proxy",
        claim="kube-proxy serves Services with nftables on every node, and one answers there.",
        why="Without it, no pod of the node reaches a Service.",
        blind=(
            "Other Services than that of the API server. The Service itself, on nodes without a "
            "route to it, such as a default route: only their pods reach Services."
        ),
        source="Kubernetes, Debug Services: /proxyMode; Virtual IPs and Service Proxies",
        reading="kubernetes.kube_proxy",
        expected=same("nftables"),
        repair=by_hand(
            f"{KUBECTL} -n kube-system get pods -l k8s-app=kube-proxy -o wide; if the pod of "
            "{node} runs, and Services do not answer there: delete this pod, and a new one starts"
        ),
        applies=views.concerned,
        explained_by=(
            *NOT_SEEN,
            Cause("kubernetes.control_plane", at=CONTROL_PLANE, of=Effect(found="the Service")),
        ),
    ),
)
