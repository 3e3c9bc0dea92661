"""A folder that stands for / of a node."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lockstep.node.fingerprint.entry import Entry, Fields
from lockstep.node.readers import commands, tree
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request

Read = Callable[[Request, Commands], Iterator[Entry]]


class Root:
    """The folder, and what is read from it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def at(self, path: str) -> Path:
        """Return where a path of the node is."""
        return self.path / path.lstrip("/")

    def file(self, path: str, text: str | bytes = "", mode: int = 0o644) -> None:
        """Write a file."""
        target = self.at(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())
        target.chmod(mode)

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link."""
        self.at(path).parent.mkdir(parents=True, exist_ok=True)
        self.at(path).symlink_to(target)

    def read(self, reader: Read) -> dict[str, Fields]:
        """Return the objects of a domain; each has a name of its own."""
        found = list(reader({}, Commands()))
        objects = {entry.name: entry.fields for entry in found}
        assert len(objects) == len(found), "two objects have the same name"
        return objects

    def changed(self, reader: Read, before: dict[str, Fields]) -> dict[str, set[str]]:
        """Return the objects that changed, and their fields that did."""
        after = self.read(reader)
        found = {}
        for name in before.keys() | after.keys():
            old, new = before.get(name, {}), after.get(name, {})
            fields = {f for f in old.keys() | new.keys() if old.get(f) != new.get(f)}
            if fields:
                found[name] = fields
        return found


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Root:
    made = Root(tmp_path / "root")
    made.path.mkdir()
    monkeypatch.setattr(tree, "ROOT", str(made.path))
    monkeypatch.setattr(commands, "PATH", str(tmp_path / "bin"))
    made.file("/proc/self/mounts", "/dev/vda / ext4 rw 0 0\n")
    made.file("/etc/passwd", f"root:x:0:0::/root:/bin/bash\nme:x:{os.getuid() or 7}:7::/:/bin/sh\n")
    made.file("/etc/group", f"root:x:0:\nus:x:{os.getgid() or 7}:\n")
    return made
