"""One package of the lab's repository, and the programs that it may hold."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = Path(__file__).parent / "repository"
LIBRARIES = "usr/lib/x86_64-linux-gnu"


@dataclass(frozen=True)
class Package:
    """One package at one version."""

    name: str
    version: str
    files: Mapping[str, bytes | str] = field(default_factory=dict)
    """Path -> content; those below bin folders are programs, those below etc are conffiles."""
    links: Mapping[str, str] = field(default_factory=dict)
    depends: str = ""
    provides: str = ""
    scripts: Mapping[str, str] = field(default_factory=dict)
    """postinst, prerm, ... -> text."""
    multi_arch: str = ""

    @property
    def control(self) -> str:
        """The control file, deb-control(5)."""
        fields = {
            "Package": self.name,
            "Version": self.version,
            "Architecture": "amd64",
            "Multi-Arch": self.multi_arch,
            "Maintainer": "Lockstep's lab <lab@invalid>",
            "Depends": self.depends,
            "Provides": self.provides,
            "Section": "non-free/admin",
            "Priority": "optional",
            "Description": f"stand-in for {self.name} (Lockstep's lab)",
        }
        return "".join(f"{name}: {value}\n" for name, value in fields.items() if value)


def source(file: str) -> str:
    """The text of a file of ``repository/``."""
    return (PROGRAMS / file).read_text(encoding="utf-8")


def python(name: str, upstream: str) -> str:
    """A program of ``repository/`` that says which version it stands in for."""
    return source(f"{name}.py").replace("@VERSION@", upstream)
