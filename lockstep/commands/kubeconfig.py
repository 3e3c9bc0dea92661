"""``lockstep kubeconfig INVENTORY``: writes a file with which kubectl reaches the cluster."""

from __future__ import annotations

import argparse
import base64
import json

from lockstep.certificates import client
from lockstep.commands import INVENTORY, Argument, Command, WrongUse, write
from lockstep.inventory import load
from lockstep.nearest import did_you_mean
from lockstep.plan import ClusterPlan
from lockstep.plan.kubernetes import endpoint
from lockstep.report import ExitStatus
from lockstep.secrets import existing, store

ADMINISTRATOR: tuple[str, tuple[str, ...]] = ("kubernetes-admin", ("kubeadm:cluster-admins",))
"""User and groups of kubeadm's own admin.conf (phases/kubeconfig/kubeconfig.go)."""
DAYS = 30
MOST_DAYS = 365


def _run(arguments: argparse.Namespace) -> int:
    plan = load(arguments.inventory)
    settings = plan.spec.kubernetes
    if settings is None:
        raise WrongUse(f"{plan.inventory}: the cluster has no Kubernetes (scheduler.kind)")
    if not 1 <= arguments.days <= MOST_DAYS:
        raise WrongUse(f"--days {arguments.days}\n  expected  1 to {MOST_DAYS}")
    user, groups = ADMINISTRATOR
    if arguments.user is not None:
        user, groups = arguments.user, _groups(plan, arguments.user)
    path = store(plan.spec.name, plan.spec.secrets_dir)
    secrets = existing(plan.spec.name, plan.spec.secrets_dir)
    if secrets is None or not secrets.kubernetes:
        raise WrongUse(
            f"{path}: no certificate authority of Kubernetes on this machine. Next: copy the file "
            "of the machine that deploys the cluster to this path"
        )
    authorities = {name: value.decode("ascii") for name, value in secrets.kubernetes.items()}
    certificate, key = client(authorities, user, groups, arguments.days)
    server = f"https://{endpoint(next(iter(plan.nodes.values())), settings)}"
    document = _document(plan.spec.name, server, user, authorities["ca.crt"], certificate, key)
    write(arguments.file, json.dumps(document, indent=2) + "\n", mode=0o600)
    print(f"{arguments.file}: {user}, for {arguments.days} days, at {server}")
    print(f"next      kubectl --kubeconfig {arguments.file} get pods")
    return ExitStatus.CONSISTENT


def _groups(plan: ClusterPlan, name: str) -> tuple[str, ...]:
    """Return the groups of a user of the description.

    Raises:
        WrongUse: the description has no such user.
    """
    settings = plan.spec.kubernetes
    users = {user.name: user for user in settings.users} if settings else {}
    if name not in users:
        expected = did_you_mean(
            name, users, ", ".join(sorted(users)) or "a user in scheduler.users"
        )
        raise WrongUse(f"{plan.inventory}: unknown user {name!r}\n  expected  {expected}")
    return users[name].groups


def _document(
    cluster: str, server: str, user: str, authority: str, certificate: str, key: str
) -> dict[str, object]:
    """Return a kubeconfig (v1), in JSON, which is YAML, too."""

    def data(text: str) -> str:
        return base64.b64encode(text.encode("ascii")).decode("ascii")

    context = f"{user}@{cluster}"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": cluster,
                "cluster": {"server": server, "certificate-authority-data": data(authority)},
            }
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": data(certificate),
                    "client-key-data": data(key),
                },
            }
        ],
        "contexts": [{"name": context, "context": {"cluster": cluster, "user": user}}],
        "current-context": context,
    }


COMMAND = Command(
    run=_run,
    help="write a kubeconfig for the administrator of Kubernetes, or for a user",
    description=(
        "Signs a certificate with the cluster's authority, which this machine has with its other "
        "secrets, and writes it with its key to a file of mode 0600. Contacts no node. A "
        "certificate cannot be revoked: what a user may do ends when a deploy removes the user. "
        "Exit status: 0 written, 3 usage error or an unsafe file."
    ),
    arguments=(
        INVENTORY,
        Argument("file", metavar="FILE", help="where to write the kubeconfig"),
        Argument("--user", metavar="NAME", help="a user of the description (scheduler.users)"),
        Argument(
            "--days",
            metavar="N",
            type=int,
            default=DAYS,
            help=f"validity in days, 1 to {MOST_DAYS} (default: {DAYS})",
        ),
    ),
)
