"""Every generated file of the project, with its content."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

from scripts.generate import (
    check_names,
    coverage_page,
    demo_records,
    description_page,
    exceptions_page,
    lab_table,
    man_page,
    nvidia_tables,
    packages_page,
    record_schemas,
    rule_counts,
    rules_page,
)
from tests.forms import large
from tests.golden import write

ROOT = Path(__file__).resolve().parents[2]

Generator: TypeAlias = Callable[[], dict[str, bytes]]

GENERATORS: tuple[Generator, ...] = (
    check_names.files,  # first: the running program has already read this file (see __main__)
    rules_page.files,
    rule_counts.files,
    coverage_page.files,
    description_page.files,
    exceptions_page.files,
    record_schemas.files,
    nvidia_tables.files,
    lab_table.files,
    packages_page.files,
    man_page.files,
    demo_records.files,
    write.files,
    large.files,
)
"""Each returns path -> content, with paths relative to the root of the project."""

WHOLLY_GENERATED = ("tests/golden/prod", "tests/golden/small")
"""Folders in which every file is generated: any other file there is out of date."""


def wanted(generators: Iterable[Generator] = GENERATORS) -> dict[str, bytes]:
    """Return path -> content of every file that these generators write."""
    files: dict[str, bytes] = {}
    for generator in generators:
        for path, content in generator().items():
            if path in files:
                raise ValueError(f"two generators write {path}")
            files[path] = content
    return files


def obsolete(files: dict[str, bytes], root: Path = ROOT) -> list[str]:
    """Return the files in generated folders that no generator writes any more."""
    return sorted(
        name
        for folder in WHOLLY_GENERATED
        for path in (root / folder).rglob("*")
        if path.is_file() and (name := str(path.relative_to(root))) not in files
    )


def write_changed(files: dict[str, bytes], root: Path = ROOT) -> list[str]:
    """Write the files whose content differs; return their paths."""
    changed = []
    for name, content in files.items():
        path = root / name
        if path.is_file() and path.read_bytes() == content:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        changed.append(name)
    return changed
