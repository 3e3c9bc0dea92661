"""GPUs as resources of Kubernetes: a namespace and a runtime class.

Owns     a manifest with both. The release "gpus" of the role kubernetes_releases installs the
         device plugin or the GPU operator, and container_runtime the runtime handler.
Restart  the daemons in the namespace, when the workers have got another layout of MIG devices.
"""

from __future__ import annotations

from lockstep.facts.files import file_states
from lockstep.plan import NodePlan
from lockstep.plan.declaration import Declaration, File, Phase, Stage
from lockstep.plan.kubernetes_gpus import LAYOUTS, objects, settings
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
    makes=(LAYOUTS,),
    operations="lockstep.roles.operations.kubernetes_gpus",
    unchecked={
        "looked_again": (
            "only the device plugin knows which MIG devices it has found; the check does not "
            "compare the GPUs that Kubernetes can give to pods"
        )
    },
    stages=(
        Stage(
            function="layouts_seen",
            title="GPUs of Kubernetes",
            phase=Phase.AFTER_WORKERS,
            asks=lambda plan: [file_states((LAYOUTS,))],
        ),
    ),
)
