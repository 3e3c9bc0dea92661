"""No state that the lab accepts makes a real program crash."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from lab.nvml import create, fields, models, smi, state
from lockstep.catalog import gpus
from lockstep.catalog.nvidia.compatibility import ARCHITECTURES
from tests.nvml.programs import SimulatedNode

QUESTIONS = (
    ("-L",),
    ("--query-gpu=index,name,uuid,pci.bus_id,power.limit,memory.total", "--format=csv"),
    ("--query-compute-apps=pid,gpu_uuid", "--format=csv"),
    ("-q", "-x"),
    ("nvlink", "-s"),
    ("nvlink", "-e"),
    ("topo", "-m"),
    ("mig", "-lgi"),
)
NUMBERS = ("0", "1", "-1", "7.5", "99999999", str(2**53 - 1), "-9007199254740991")
OWN = {
    "processes": ("none", "1:C:100", "4294967295:G:0 7:C:9:1:0", " ".join(["9:C:1"] * 60)),
    "xid": ("none", "79", "48 63 79"),
    "mig.instances": ("none", "1:9:4:4", "1:9:4:4 1/0:2:0:3 7:19:0:1", "14:99:0:1 14/7:0:0:1"),
    "cpu_affinity": ("0", "0-1", "0-999999"),
}


def branches(model: str) -> list[str]:
    """Return the branches whose nvidia-smi NVIDIA supports on this model, or the newest."""
    first = ARCHITECTURES[gpus.load(model).architecture or ""].first_branch
    return [name for name in smi.BRANCHES if int(name) >= first] or ["555"]


def value_for(name: str, example: str, chance: Random) -> str:
    """Return a value that the lab may accept: of its kind, extreme, an error, or none."""
    roll = chance.random()
    if roll < 0.1:
        return "[N/A]"
    if roll < 0.2:
        return f"error:{chance.choice(fields.ERRORS)}"
    for words in (fields.CHOICES.get(name), OWN.get(name)):
        if words:
            return chance.choice(words)
    for pair in (fields.ENABLED, fields.YES, fields.ACTIVE):
        if example in pair:
            return chance.choice(pair)
    if fields.NUMBER.fullmatch(example):
        return chance.choice(NUMBERS)
    if fields.HEX.fullmatch(example):
        return hex(chance.getrandbits(64))
    return chance.choice((example, "x" * chance.choice((1, 80, 3000)), "%s%n", "ä"))


def generated(folder: Path, seed: int) -> SimulatedNode:
    """Write a state with random values, as far as the lab accepts them."""
    chance = Random(seed)
    model = chance.choice(models.known())
    node = SimulatedNode(folder, model, chance.randint(1, 4), chance.choice(branches(model)))
    known = {**create.names(), **fields.OWN}
    for _ in range(chance.choice((1, 3, 10, 40))):
        name = chance.choice(sorted(known))
        value = value_for(name, known[name], chance)
        target = chance.choice(("all", "0"))
        if state.main(["set", str(node.state), target, f"{name}={value}"]) == 0:
            assert state.main(["check", str(node.state)]) == 0, f"{name}={value}"
    return node


def survives(folder: Path, seed: int) -> None:
    node = generated(folder, seed)
    for words in QUESTIONS:
        status = node.smi(*words).returncode
        assert 0 <= status <= 255, f"seed {seed}, branch {node.branch}: {words} ended by {-status}"


@pytest.mark.parametrize("seed", range(40))
def test_a_generated_state_crashes_no_program(tmp_path: Path, seed: int) -> None:
    survives(tmp_path, seed)
