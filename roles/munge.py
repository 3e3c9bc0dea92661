"""One munge key for all nodes, generated once on the deploying machine and never shown.

Secret   the key is sent only on standard input; the deploy compares hashes.
"""

from __future__ import annotations

from lockstep.plan.declaration import Declaration, File, Unit
from lockstep.plan.slurm import MUNGE_KEY

ROLE = Declaration(
    name="munge",
    title="Munge",
    jobs_use=True,
    when=lambda plan: plan.spec.slurm is not None and not plan.takes_pods,
    after=("time_sync.gate",),
    packages={"": ("munge",)},
    files=(
        File(
            path=MUNGE_KEY,
            secret_content=lambda secrets: secrets.munge_key,
            mode="400",
            owner="munge:munge",
            secret=True,
            # munged(8): a key has 32 to 1024 bytes; munged cannot test a key without starting.
            validate='n="$(stat -c %s {new})"; test "$n" -ge 32 && test "$n" -le 1024',
        ),
    ),
    units=(Unit(name="munge.service", program="/usr/sbin/munged"),),
)
