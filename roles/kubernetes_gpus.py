"""GPUs as resources of Kubernetes: a namespace and a runtime class.

Owns     a manifest with both. The release "gpus" of the role kubernetes_releases installs the
         device plugin or the GPU operator, and container_runtime the runtime handler.
Restart  nothing.
"""

from __future__ import annotations

from lockstep.plan import NodePlan
from lockstep.plan.declaration import Declaration, File
from lockstep.plan.kubernetes_gpus import objects, settings
from lockstep.plan.kubernetes_objects import FOLDER, VALIDATE, applies_objects, manifest


def _applies(plan: NodePlan) -> bool:
    return applies_objects(plan) and settings(plan) is not None


ROLE = Declaration(
    name="kubernetes_gpus",
    title="GPUs of Kubernetes",
    when=_applies,
    after=("kubernetes_control_plane",),
    files=(
        File(
            path=f"{FOLDER}/gpus.yaml",
            text=lambda plan: manifest(objects(plan)),
            own=True,
            validate=VALIDATE,
        ),
    ),
)
