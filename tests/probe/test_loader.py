"""The compiled modules that a node keeps: when they are used, and when they are not."""

from __future__ import annotations

import base64
import hashlib
import json
import marshal
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from lockstep.node.readers import kept
from lockstep.probe import loader
from lockstep.probe.ship import MAIN, Request, late, sources, with_input

NAME = "lockstep_loaded"
HONEST, FORGED = "def main(): print('honest')", "def main(): print('forged')"


def squeezed(texts: dict[str, str]) -> str:
    return base64.b64encode(zlib.compress(json.dumps(texts).encode())).decode()


def packed(text: str = HONEST) -> str:
    return squeezed({NAME: text})


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A node that Lockstep deploys, and that has kept the compiled modules."""
    manifest, cache = tmp_path / "manifest.json", tmp_path / "cache"
    manifest.touch()
    monkeypatch.setattr(kept, "DEPLOYED", str(manifest))
    monkeypatch.setattr(kept, "CACHE", str(cache))
    yield SimpleNamespace(manifest=manifest, cache=cache, file=cache / loader.COMPILED)
    sys.modules.pop(NAME, None)


def ran(node: SimpleNamespace, capsys: pytest.CaptureFixture[str], text: str = HONEST) -> str:
    # The module ``kept`` is the one of this process, whose folder is the test's.
    loader.run_kept({}, packed(text), NAME)
    return capsys.readouterr().out.strip()


def forge(node: SimpleNamespace) -> None:
    """Replace what is kept by other modules, with a digest that is right."""
    data = node.file.read_bytes()
    content = marshal.dumps({NAME: compile(FORGED, "forged.py", "exec")})
    key = data[: loader.DIGEST]
    node.file.write_bytes(key + hashlib.sha256(content).digest() + content)


def test_the_compiled_modules_are_kept_and_used(
    node: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran(node, capsys) == "honest"
    assert [path.name for path in node.cache.iterdir()] == [loader.COMPILED]
    assert node.cache.stat().st_mode & 0o777 == 0o700
    assert node.file.stat().st_mode & 0o777 == 0o600
    assert ran(node, capsys) == "honest"
    # This shows that the file is used: root of the node could run anything anyway.
    forge(node)
    assert ran(node, capsys) == "forged"


def test_another_program_is_compiled(
    node: SimpleNamespace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(node, capsys)
    assert ran(node, capsys, "def main(): print('newer')") == "newer"
    ran(node, capsys)
    forge(node)
    monkeypatch.setattr(sys, "version", "another build")
    assert ran(node, capsys) == "honest"


LATE = "lockstep_late"


@pytest.mark.parametrize("deployed", [True, False])
def test_a_module_that_nobody_uses_does_not_run(
    node: SimpleNamespace, capsys: pytest.CaptureFixture[str], deployed: bool
) -> None:
    """On a node that keeps nothing, it is not even compiled."""
    if not deployed:
        node.manifest.unlink()
    texts = {LATE: "no Python" if not deployed else "print('ran')", NAME: HONEST}
    for _ in range(2):  # the second time, the node uses what it has kept
        loader.run_kept({}, squeezed(texts), NAME, [LATE])
        assert capsys.readouterr().out == "honest\n"
    loader.run({**texts, LATE: "no Python"}, NAME, [LATE])
    assert capsys.readouterr().out == "honest\n"
    sys.modules.pop(LATE)


@pytest.mark.parametrize("deployed", [True, False])
def test_a_module_that_is_used_runs_once(
    node: SimpleNamespace, capsys: pytest.CaptureFixture[str], deployed: bool
) -> None:
    if not deployed:
        node.manifest.unlink()
    main = f"import {LATE}\ndef main(): print({LATE}.value, {LATE}.value)"
    texts = {LATE: "print('ran')\nvalue = __name__", NAME: main}
    for _ in range(2):
        loader.run_kept({}, squeezed(texts), NAME, [LATE])
        assert capsys.readouterr().out == f"ran\n{LATE} {LATE}\n"
    with pytest.raises(AttributeError, match="has no other"):
        _ = sys.modules[LATE].other
    sys.modules.pop(LATE)


def unsafe(node: SimpleNamespace, how: str) -> None:
    real = node.file.with_name("real")
    match how:
        case "others write the file":
            node.file.chmod(0o602)
        case "others enter the folder":
            node.cache.chmod(0o701)
        case "the file is a link":
            os.rename(node.file, real)
            node.file.symlink_to(real)
        case "the folder is a link":
            node.cache.rename(node.cache.with_name("elsewhere"))
            node.cache.symlink_to("elsewhere")
        case "the file was cut off":
            node.file.write_bytes(node.file.read_bytes()[:-1])
        case "the file belongs to another":
            os.chown(node.file, 65534, 65534)


@pytest.mark.parametrize(
    "how",
    [
        "others write the file",
        "others enter the folder",
        "the file is a link",
        "the folder is a link",
        "the file was cut off",
        pytest.param(
            "the file belongs to another",
            marks=pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away"),
        ),
    ],
)
def test_what_another_may_have_written_is_not_used(
    node: SimpleNamespace, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    ran(node, capsys)
    forge(node)
    unsafe(node, how)
    assert ran(node, capsys) == "honest"


def test_a_node_that_lockstep_does_not_deploy_keeps_nothing(
    node: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    node.manifest.unlink()
    assert ran(node, capsys) == "honest"
    assert not node.cache.exists()


def test_a_folder_that_cannot_be_made_does_not_matter(
    node: SimpleNamespace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "CACHE", str(node.cache / "missing" / "folder"))
    assert ran(node, capsys) == "honest"


def test_the_program_with_fingerprints_is_one_line() -> None:
    command, lines = with_input(Request(fingerprint="prod"))
    assert "\n" not in command
    assert [line for line in lines if "\n" in line] == []
    assert len(lines) == 2


def test_few_nodes_need_some_modules_and_the_others_run_at_once() -> None:
    texts = sources()
    found = {name.rpartition(".")[2] for name in late(texts, MAIN)}
    assert {"programs", "rpm", "slurm_running", "slurm_partitions"} <= found
    assert not {"files", "slow", "main", "collect", "kept"} & found
