"""Clusters whose nodes have identities in the forms of real hardware, drawn from a seed.

    python -m tests.node.fingerprint.generated --clusters 200 --seed 1

Each cluster has three equal nodes. The domains of ``lockstep.node.fingerprint`` read them from
files that have the forms of a real machine, and ``lockstep.checks.fingerprint`` compares them. A
finding is a false one. ``--seed SEED`` of a finding makes its cluster again with ``--clusters 1``.
"""
