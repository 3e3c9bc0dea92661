"""The GPUs that the kubelet can give to pods."""

from __future__ import annotations

import json

from lockstep.node.readers.reading import Unread
from lockstep.node.readers.tree import text_of

CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
"""The kubelet's list of healthy devices (pkg/kubelet/cm/devicemanager: writeCheckpoint)."""


def offered(uuids: dict[str, str]) -> dict[str, str] | Unread:
    """Return which GPUs are "healthy" or "unhealthy" for NVIDIA's device plugin, given UUIDs.

    It names a part of a GPU's time UUID::number (k8s-device-plugin, internal/rm/devices.go).
    """
    try:
        found = json.loads(text_of(CHECKPOINT))["Data"]["RegisteredDevices"].get("nvidia.com/gpu")
    except Unread as reason:
        return reason
    except (ValueError, LookupError, TypeError, AttributeError):
        return Unread(f"{CHECKPOINT} has no RegisteredDevices")
    if not found:
        return Unread("no device plugin has told the kubelet of a healthy GPU")
    healthy = {one.partition("::")[0] for one in found}
    return {gpu: "healthy" if uuids[gpu] in healthy else "unhealthy" for gpu in uuids}
