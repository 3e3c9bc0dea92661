"""Readings of Slurm's plugins: the Slurm release they were built for, and their options."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.standins.job_containers import OTHER_SLURM, SLURM, packages
from lab.standins.library import shared_object
from tests.probe.test_collect import Node, node

__all__ = ["node"]

PLUGIN = "/usr/lib/x86_64-linux-gnu/slurm/spank_pyxis.so"


def builds() -> list[bytes]:
    """The plugins of the lab's repository, compiled: for another Slurm, and for Debian 13's."""
    found = [one.files[PLUGIN[1:]] for one in packages() if one.name == "nvslurm-plugin-pyxis"]
    return [content for content in found if isinstance(content, bytes)]


def put(node: Node, content: bytes) -> None:
    target = Path(str(node.root) + PLUGIN)
    target.parent.mkdir(parents=True)
    target.write_bytes(content)


@pytest.mark.parametrize(
    ("build", "slurm", "series"), [(0, OTHER_SLURM, "24.05"), (1, SLURM, "24.11")]
)
def test_a_plugin_says_for_which_slurm_it_was_built(
    node: Node, build: int, slurm: tuple[int, int, int], series: str
) -> None:
    assert series == f"{slurm[0]}.{slurm[1]:02}"
    put(node, builds()[build])
    assert node.read(spank_plugins=[PLUGIN])["slurm.spank_plugins"] == {"value": {PLUGIN: series}}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"#!/bin/sh\n", "is not a 64-bit shared object"),
        (shared_object("spank_pyxis.so"), "does not export plugin_version"),
        (builds()[1][:-100], "is a truncated shared object"),
    ],
    ids=["a script", "another library", "a part of it"],
)
def test_what_is_no_plugin_is_unread(node: Node, content: bytes, reason: str) -> None:
    put(node, content)
    read = node.read(spank_plugins=[PLUGIN])["slurm.spank_plugins"]
    assert read == {"value": {PLUGIN: {"unread": f"{PLUGIN} {reason}"}}}


def test_a_plugin_that_is_not_there_is_unread(node: Node) -> None:
    read = node.read(spank_plugins=[PLUGIN])["slurm.spank_plugins"]
    assert read == {"value": {PLUGIN: {"unread": f"{PLUGIN}: no such file"}}}


HELP = "      --container             Path to OCI container bundle\n      --container-id  OCI"
ASKED = {"srun_options": ["--container-image"]}


def test_the_options_of_srun_are_those_of_its_help(node: Node) -> None:
    node.tool("srun", f"echo '{HELP}'")
    assert node.read(**ASKED)["slurm.srun_options"] == {"value": {"--container-image": False}}
    node.tool("srun", f"echo '{HELP}'; echo '      --container-image=PATH  [pyxis] the image'")
    assert node.read(**ASKED)["slurm.srun_options"] == {"value": {"--container-image": True}}


def test_a_srun_that_refuses_to_start_is_unread(node: Node) -> None:
    node.tool("srun", "echo 'srun: error: spank: Failed to load plugin. Aborting.' >&2; exit 1")
    assert node.read(**ASKED)["slurm.srun_options"] == {
        "unread": "srun: exit 1: srun: error: spank: Failed to load plugin. Aborting."
    }
    assert node.read()["slurm.srun_options"] == {"value": {}}
