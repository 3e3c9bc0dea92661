"""The types of what a description has inside of Kubernetes: namespaces, users, priority classes.

Names and limits are those of Kubernetes' API (reference of Kubernetes 1.34).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from lockstep.spec.fields import Model, matching

ObjectName = Annotated[
    str,
    matching(
        # RFC 1123, as the names of namespaces (Kubernetes, Object Names and IDs).
        r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?",
        "a name of lower-case letters, digits and '-' (not first or last), at most 63 characters",
    ),
]
ResourceName = Annotated[
    str,
    matching(
        r"[a-z0-9][a-z0-9.-]*(/[A-Za-z0-9._-]+)?",
        "a resource such as pods, requests.cpu or requests.nvidia.com/gpu",
    ),
]
Quantity = Annotated[
    str,
    matching(
        r"\d{1,18}(\.\d{1,9})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?",
        'a quantity as text, such as "16" or "64Gi"',
    ),
]
UserName = Annotated[
    str,
    matching(
        # Kubernetes' own users and groups begin with "system:".
        r"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}",
        "a name of letters, digits and ._@-, at most 63 characters",
    ),
]
VolumeFolder = Annotated[
    str,
    matching(
        # It is an argument of a shell script in the pods that make and remove volumes.
        r"(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+",
        "an absolute path of letters, digits and ._-, such as /scratch/volumes",
    ),
]
Access = Literal["view", "edit", "admin"]
PodSecurity = Literal["privileged", "baseline", "restricted"]


class Namespace(Model):
    """A namespace, in which a team has its pods."""

    name: ObjectName
    """Name of the namespace."""
    pod_security: PodSecurity = "baseline"
    """Which pods are refused (Pod Security Standards). "baseline" refuses pods that reach into the
    node; "privileged" refuses none."""
    quota: Mapping[ResourceName, Quantity] = Field(default_factory=dict)
    """Limits of all pods together (ResourceQuota): ``{"requests.nvidia.com/gpu": "16"}``."""


class User(Model):
    """A user, whose kubeconfig ``lockstep kubeconfig`` makes."""

    name: UserName
    """Name of the user, which API servers take from the certificate."""
    groups: tuple[UserName, ...] = ()
    """Groups of the user, for role bindings of the site."""
    access: Mapping[ObjectName, Access] = Field(default_factory=dict)
    """Namespace -> what the user may do there: "view" (all but Secrets), "edit" (also change them,
    and use Secrets), "admin" (also give rights to others)."""
    cluster_admin: bool = False
    """Whether the user may do everything in all namespaces."""


class PriorityClass(Model):
    """How important pods are (PriorityClass)."""

    value: Annotated[int, Field(ge=-2147483648, le=1_000_000_000)]
    """Pods with a higher value are scheduled first."""
    preempts: bool = True
    """Whether pods with lower values are ended to make room."""


class Audit(Model):
    """The audit log of each API server: who did what, without contents."""

    days: Annotated[int, Field(ge=1, le=3650)] = 30
    """Age of a file, in days, from which it is removed (--audit-log-maxage)."""
    size_mib: Annotated[int, Field(ge=1, le=10240)] = 100
    """Size of a file, in MiB, from which a new file begins (--audit-log-maxsize)."""
    files: Annotated[int, Field(ge=1, le=1000)] = 10
    """Older files that are kept (--audit-log-maxbackup)."""
