"""The types of what keeps a control plane of Kubernetes alive: certificates, and snapshots."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lockstep.spec.fields import Model


class Certificates(Model):
    """The certificates that kubeadm makes for the control plane; a kubelet renews its own."""

    valid_days: Annotated[int, Field(ge=1, le=3650)] = 365
    """Days for which a new certificate is valid (certificateValidityPeriod)."""
    renew_days: Annotated[int, Field(ge=0, le=3649)] = 90
    """A deploy renews all of a head's certificates if one of them ends in fewer days."""


class Snapshots(Model):
    """Snapshots of etcd, which has all objects, on each head that runs the control plane."""

    every_hours: Annotated[int, Field(ge=1, le=168)] = 6
    """Hours between two snapshots."""
    keep: Annotated[int, Field(ge=1, le=1000)] = 28
    """Snapshots that a head keeps; the oldest are deleted."""
