"""No description does harm: it is refused in seconds with its line, or its files are harmless.

``MUTATED`` descriptions are changed at random places here. For more of them:

    LOCKSTEP_HARM_EXAMPLES=200000 LOCKSTEP_HARM_SEED=1 pytest tests/harm/test_no_harm.py
"""

from __future__ import annotations

import copy
import os
import resource
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lockstep.inventory import plan_or_problems
from tests.harm.descriptions import Base, bases
from tests.harm.mutation import BEGIN, END, MOST_MIB, Mutation, harm, mutated
from tests.test_examples import optional

MUTATED = int(os.environ.get("LOCKSTEP_HARM_EXAMPLES", "1000"))


def _seed() -> int:
    """The seed that was asked for, or the commit, so that each commit tries other descriptions."""
    if "LOCKSTEP_HARM_SEED" in os.environ:
        return int(os.environ["LOCKSTEP_HARM_SEED"])
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return int(head.stdout[:8], 16) if head.returncode == 0 else 1


SEED = _seed()
ANY = st.integers(min_value=0, max_value=0xFFFF)
MUTATIONS = st.lists(st.builds(Mutation, ANY, ANY, ANY, ANY), min_size=1, max_size=3)


@pytest.mark.parametrize("base", bases(), ids=lambda base: base.name)
def test_what_is_not_mutated_is_accepted(base: Base) -> None:
    assert harm(copy.deepcopy(base.description), base.file) == (True, "")


def test_together_the_descriptions_give_every_optional_field() -> None:
    fields: list[tuple[str, bool]] = []
    for base in bases():
        made, _ = plan_or_problems(base.description, base.file)
        assert made is not None
        fields += optional(made.spec)
    given_somewhere = {name for name, given_there in fields if given_there}
    assert {name for name, _ in fields} == given_somewhere


@pytest.mark.timeout(0 if MUTATED > 1000 else 300)
@pytest.mark.parametrize("seed", [SEED])
def test_no_mutated_description_does_harm(seed: int) -> None:
    accepted: Counter[bool] = Counter()

    @hypothesis.seed(seed)
    @settings(
        max_examples=MUTATED,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(base=st.sampled_from(bases()), mutations=MUTATIONS)
    def check(base: Base, mutations: list[Mutation]) -> None:
        taken, harmful = harm(mutated(base, mutations), base.file)
        accepted[taken] += 1
        assert harmful == ""

    before = _peak_mib()
    check()
    print(f"seed {seed}: {accepted[False]} refused, {accepted[True]} accepted")
    # Both are tried: the messages, and the files of those that have odd values and are valid.
    assert min(accepted[True], accepted[False]) > MUTATED // 20
    # Other tests of the same process may have had a high peak before.
    assert _peak_mib() - before < MOST_MIB


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _texts(value: object) -> Iterator[tuple[Any, Any]]:
    """Each text of a description, as the place where it is."""
    items = value.items() if isinstance(value, dict) else enumerate(value)  # type: ignore[arg-type]
    for key, item in list(items):
        if isinstance(item, str):
            yield value, key
        elif isinstance(item, dict | list):
            yield from _texts(item)


@pytest.mark.parametrize("syntax", ["\n", '"', ";", "$(x)", " #"])
@pytest.mark.parametrize("name", ["everything", "kubernetes", "pods"])
def test_no_text_reaches_a_file_as_syntax(name: str, syntax: str) -> None:
    (base,) = (one for one in bases() if one.name == name)
    wanted = copy.deepcopy(base.description)
    harmful = {}
    for inside, key in _texts(wanted):
        text = inside[key]
        inside[key] = f"{text}{BEGIN}{syntax}{END}"
        harmful[text[:40]] = harm(wanted, base.file)[1]
        inside[key] = text
    assert {text: why for text, why in harmful.items() if why} == {}
