"""``lockstep mirror INVENTORY [DIR]``: lists, checks or copies what a description needs."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lockstep.commands import (
    INVENTORY,
    JSON,
    Argument,
    Command,
    WrongUse,
    require_writable,
    show,
    write,
)
from lockstep.forms import table
from lockstep.inventory import load
from lockstep.mirror import needs, options, snapshot, wheels
from lockstep.mirror.check import gone, headers_gone, streams_gone
from lockstep.mirror.needs import ANY, Kind
from lockstep.mirror.options import NONE, System
from lockstep.mirror.root import PackageFile
from lockstep.mirror.snapshot import Part
from lockstep.mirror.trouble import MirrorError, Trouble, Unusable, public
from lockstep.plan import ClusterPlan
from lockstep.report import ExitStatus, count, fold

NO_IMAGES = "container images: none, because no field of a description names an image"


def _run(arguments: argparse.Namespace) -> int:
    if arguments.check and arguments.make:
        raise WrongUse("--check and --make: choose one; --make checks first")
    if arguments.make and arguments.folder is None:
        raise WrongUse("--make: no folder\n  expected  lockstep mirror INVENTORY DIR --make")
    if arguments.folder is not None and not arguments.make:
        raise WrongUse(f"{arguments.folder}: a folder is written only with --make")
    for name in ("archive", "kernel"):
        if getattr(arguments, name) and not (arguments.check or arguments.make):
            raise WrongUse(
                f"--{name}: the list does not use it\n  expected  --check or --make with it"
            )
    require_writable(arguments, "json")
    plan = load(arguments.inventory)
    kinds = needs.kinds(plan)
    lock = _lock(arguments.lock)
    if not arguments.make and not arguments.check:
        show(arguments.json, lambda: _document(plan, kinds, lock), lambda: _text(plan, kinds, lock))
        return ExitStatus.CONSISTENT
    try:
        return _with_repositories(arguments, plan, kinds, lock)
    except MirrorError as error:
        if arguments.json:
            problems = [one.to_json() for one in error.troubles]
            write(arguments.json, json.dumps({"problems": problems}, indent=2) + "\n")
        print(error, file=sys.stderr)
        return ExitStatus.UNREAD
    except Unusable as error:
        raise WrongUse(str(error)) from error
    except OSError as error:
        raise WrongUse(f"{error.filename}: {error.strerror}") from error


def _with_repositories(
    arguments: argparse.Namespace, plan: ClusterPlan, kinds: Sequence[Kind], lock: Path | None
) -> int:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lockstep"
    systems = options.systems(kinds, arguments.archive or (), arguments.kernel or (), cache)
    troubles: list[Trouble] = []
    for one in systems:
        one.root.update()
        troubles += [
            _hinted(trouble, one)
            for trouble in (
                *gone(one.root, one.kinds),
                *streams_gone(one.root, one.kinds),
                *headers_gone(one.root, one.kinds, one.kernels),
            )
        ]
    if troubles:
        show(
            arguments.json,
            lambda: {"problems": [one.to_json() for one in troubles]},
            lambda: "".join(f"{one.text()}\n" for one in troubles),
        )
        return ExitStatus.DIFFERS
    parts = [Part(one.release, one.architecture, one.root, _files(one)) for one in systems]
    content = snapshot.content(plan.spec.name, parts)
    notes = "".join(f"{note}\n" for note in _notes(systems, lock))
    size = sum(file.size for part in parts for file in part.packages)
    found = (
        f"every package of {count(len(plan.nodes), 'node')} is in a repository: "
        f"{count(len(content.packages), 'file')} with dependencies, {_bytes(size)}\n"
    )
    if arguments.check:
        show(arguments.json, lambda: {**content.document, "problems": []}, lambda: found + notes)
        return ExitStatus.CONSISTENT
    made = snapshot.make(Path(arguments.folder), content, parts, lock)
    show(
        arguments.json,
        lambda: {**made.document, "fetched": made.fetched, "problems": []},
        lambda: (
            f"{arguments.folder}: {count(len(made.document['files']), 'file')}, "
            f"{made.fetched} fetched ({_bytes(made.size)})\n"
            + "".join(f"{line}\n" for line in _pointers(made.document))
            + notes
        ),
    )
    return ExitStatus.CONSISTENT


def _lock(option: str | None) -> Path | None:
    if option == NONE or (option is None and not wheels.LOCK.is_file()):
        return None
    path = Path(option) if option else wheels.LOCK
    try:
        wheels.requirements(path)
    except OSError as error:
        raise WrongUse(f"--lock {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WrongUse(
            f"--lock {path}: not a text file\n"
            "  expected  pinned requirements with hashes in UTF-8, such as requirements.lock"
        ) from error
    except ValueError as error:
        raise WrongUse(f"--lock {error}") from error
    return path


def _files(system: System) -> tuple[PackageFile, ...]:
    files: dict[PackageFile, None] = {}
    for kind in system.kinds:
        files |= dict.fromkeys(system.root.resolve(kind, system.kernels))
    return tuple(files)


def _hinted(one: Trouble, system: System) -> Trouble:
    if not system.lacks_archive:
        return one
    hint = (
        f"{one.next}. {system.name}'s own archive was not asked: --archive FILE names a file of "
        f"{system.archive_file} that lists it"
    )
    return replace(one, next=hint)


def _notes(systems: Sequence[System], lock: Path | None) -> Iterator[str]:
    builds = [
        name
        for system in systems
        for kind in system.kinds
        if needs.header_pattern(kind) and not system.kernels
        for name in kind.nodes
    ]
    if builds:
        yield (
            f"not included: kernel headers, with which {fold(builds)} build the driver's modules. "
            "Add --kernel KERNEL for each kernel (uname -r)"
        )
    if lock is None:
        yield "not included: Lockstep's Python packages (--lock requirements.lock of its checkout)"
    yield NO_IMAGES


def _pointers(document: Mapping[str, object]) -> Iterator[str]:
    """Yield the lines that say what the description has to name."""
    yield ""
    yield "For nodes that cannot reach the vendors, software.repositories of the description has"
    yield "these addresses below that of the folder, each with its vendor's key and frozen: True:"
    repositories = document["repositories"]
    assert isinstance(repositories, list)
    rows = [
        (one["release"], one["folder"] + "/", one["suite"], " ".join(one["components"]) or "-")
        for one in repositories
    ]
    yield from table([("RELEASE", "URI", "SUITE", "COMPONENTS"), *rows])
    yield ""


def _document(plan: ClusterPlan, kinds: Sequence[Kind], lock: Path | None) -> dict[str, object]:
    return {
        "cluster": plan.spec.name,
        "repositories": [
            {
                "name": one.name,
                "uri": public(one.uri),
                "suite": one.suite,
                "components": list(one.components),
            }
            for one in plan.spec.software.repositories
        ],
        "kinds": [
            {
                "release": kind.release.name,
                "architecture": kind.architecture,
                "nodes": list(kind.nodes),
                "packages": [
                    {
                        "name": one.package,
                        "version": None if one.version == ANY else one.version,
                        "field": one.field,
                    }
                    for one in kind.packages
                ],
            }
            for kind in kinds
        ],
        "wheels": [f"{one.name}=={one.version}" for one in wheels.requirements(lock)]
        if lock
        else [],
        "images": [],
    }


def _text(plan: ClusterPlan, kinds: Sequence[Kind], lock: Path | None) -> str:
    lines = []
    repositories = plan.spec.software.repositories
    if repositories:
        rows = [
            (one.name, public(one.uri), one.suite, " ".join(one.components) or "-")
            for one in repositories
        ]
        lines += [*table([("REPOSITORY", "URI", "SUITE", "COMPONENTS"), *rows]), ""]
    for kind in kinds:
        packages = [
            (one.package, "any" if one.version == ANY else one.version, one.field)
            for one in kind.packages
        ]
        lines += [
            f"{fold(kind.nodes)}: {kind.system}, {count(len(packages), 'package')} and what "
            "they depend on",
            *table([("PACKAGE", "VERSION", "FROM"), *packages]),
            "",
        ]
    python = count(len(wheels.requirements(lock)), "package") if lock else "not included"
    lines += [f"Lockstep's Python packages: {python}", NO_IMAGES]
    lines += [
        "",
        f"Ask the repositories for these versions: lockstep mirror {plan.inventory} --check",
        f"Copy them: lockstep mirror {plan.inventory} DIR --make",
    ]
    return "".join(f"{line}\n" for line in lines)


def _bytes(size: int) -> str:
    for exponent, unit in enumerate(("B", "kB", "MB")):
        shown = round(size / 1000**exponent)
        if shown < 1000:
            return f"{shown} {unit}"
    return f"{size / 1000**3:.1f} GB"


COMMAND = Command(
    run=_run,
    help="list, check or copy the packages that the nodes need, for sites without internet",
    description=(
        "Without --check and --make, list what the description needs; nothing is contacted. "
        "Exit status: 0 everything is available, 1 a package or version is in no repository, "
        "2 a repository cannot be read, 3 usage error."
    ),
    arguments=(
        INVENTORY,
        Argument("folder", metavar="DIR", nargs="?", help="folder of the snapshot, with --make"),
        Argument(
            "--check",
            action="store_true",
            help="ask the repositories for every package and version; contacts no node",
        ),
        Argument(
            "--make",
            action="store_true",
            help="check, then make DIR hold every package; fetch what is missing",
        ),
        Argument(
            "--archive",
            metavar="[RELEASE=]FILE",
            action="append",
            help="file of sources.list(5) or dnf.conf(5) that lists the distribution's archive, "
            "or none; default: this machine's, if it has the nodes' release; repeatable",
        ),
        Argument(
            "--kernel",
            metavar="[RELEASE=]KERNEL",
            action="append",
            help="include the headers of this kernel (uname -r) of the nodes of a release; "
            "repeatable",
        ),
        Argument(
            "--lock",
            metavar="FILE",
            help="Lockstep's pinned requirements, or none; default: those of the checkout",
        ),
        JSON,
    ),
)
