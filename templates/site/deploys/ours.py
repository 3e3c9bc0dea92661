"""What only our site does, with plain pyinfra, after Lockstep's roles. Empty at first.

A role (roles/) is better where its form is enough: the check compares it, and repairs name it. A
worker may already run jobs when this file runs, so what jobs need belongs into a role.
"""

from pyinfra import host

from lockstep.plan import NodePlan

plan: NodePlan = host.data.plan

# For example:
#
# from pyinfra.operations import files
#
# if plan.is_worker:
#     files.directory(name="Scratch folder", path="/scratch", mode="1777")
