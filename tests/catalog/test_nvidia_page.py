"""docs/nvidia.md agrees with the catalogue, and its example is a valid version set."""

import ast
import re
from typing import Any

import pytest

from lockstep import spec
from lockstep.inventory import planned as plan
from lockstep.roles import declared
from lockstep.spec import hardware, software
from scripts.generate.nvidia_tables import PAGE, TABLES, marked
from tests.golden.write import ROOT
from tests.spec.example import description

TEXT = PAGE.read_text(encoding="utf-8")
KEY = '(Path(__file__).parent / "keys/nvidia.asc").read_text()'


def test_every_table_is_on_the_page_once() -> None:
    assert sorted(marked(TEXT)) == sorted(TABLES)


def test_every_source_that_a_row_names_is_listed() -> None:
    rows = re.findall(r"\| ([0-9, ]+) \|$", TEXT, re.MULTILINE)
    named = {int(number) for row in rows for number in row.split(",")}
    listed = {int(n) for n in re.findall(r"^(\d+)\. ", TEXT[TEXT.index("## Sources") :], re.M)}
    assert named <= listed


def example() -> dict[str, Any]:
    """The parts of a description that the page shows, as one dictionary."""
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    key = (ROOT / "inventories/keys/nvidia-debian13.asc").read_text(encoding="ascii")
    source = "{" + "".join(blocks).replace(KEY, repr(key)) + "}"
    value: dict[str, Any] = ast.literal_eval(source)
    return value


def test_the_example_is_valid_and_its_parts_reach_the_node() -> None:
    wanted = description()
    shown = example()
    wanted["software"] = shown["software"]
    wanted["hardware"]["hgx"]["gpu"].update(shown["gpu"])
    cluster, problems = spec.load(wanted, declared())
    assert problems == []
    assert cluster is not None
    node = plan(cluster).nodes["worker1"]
    assert node.nvidia is not None
    assert node.nvidia.has("fabric_manager")
    assert node.software.versions["libcuda1"] == f"{shown['software']['nvidia']['driver']}-*"
    assert node.software.versions["libnccl2"] == shown["software"]["versions"]["libnccl2"]


@pytest.mark.parametrize("name", [*software.Nvidia.model_fields, *hardware.Gpu.model_fields])
def test_every_field_of_the_version_set_and_of_the_gpus_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in TEXT or f'"{name}"' in TEXT
