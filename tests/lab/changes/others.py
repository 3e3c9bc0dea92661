"""Make changes on the workers of a lab, and count what debsums and AIDE name.

    LOCKSTEP_LAB=NAME python -m tests.lab.changes > FILE
    LOCKSTEP_LAB=NAME python -m tests.lab.changes.others [--part 0/4] [--lockstep FILE]

debsums and AIDE are installed from the lab's Debian archive, AIDE with Debian's configuration but
one checksum instead of seven, which names the same files in less time. Both know one node only, and
name files: debsums those that are not as their package ships them (--all: configuration as well),
AIDE those that are not as in its database, which is made before the first change. A change counts
as named if a file that it touches is reported, and was not reported before. Many changes are made
at once, because both tools tell their files apart. ``--lockstep`` adds the outcomes of Lockstep.

The lab is not as before afterwards: the packages and AIDE's database stay.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tests.lab.changes import Change, catalogue
from tests.lab.changes.judge import GOOD
from tests.lab.changes.rounds import INTERFACE, Round, touched
from tests.lab.changes.trial import Trial
from tests.lab.labs import Lab

INSTALL = """
export DEBIAN_FRONTEND=noninteractive
apt-get update -q >&2
apt-get install -q -y --no-install-recommends debsums aide aide-common >&2
sed -i 's/^Checksums = H$/Checksums = sha256/' /etc/aide/aide.conf
"""
AIDE = "aide --config=/etc/aide/aide.conf --before report_format=json"
INIT = f"{AIDE} --init >&2 && mv /var/lib/aide/aide.db.new /var/lib/aide/aide.db"
READ = f"echo '== debsums'; debsums --all --changed 2>&1; echo '== AIDE'; {AIDE} --check"
UNDONE = frozenset(" .=:mcinbfdl")
"""Letters of AIDE's summary (aide.conf(5), report_summarize_changes) that stay after an undo: times
and inode. A change of a file's content, mode, owner or attributes has others as well."""
OF_DOMAIN = {
    **dict.fromkeys(("user", "group"), tuple(
        f"/etc/{name}" for name in ("passwd", "shadow", "group", "gshadow", "subuid", "subgid")
    )),
    "package": ("/var/lib/dpkg", "/var/lib/apt", "/etc/site-tool.conf"),
    "engine": ("/var/lib/docker", "/var/lib/containers", "/etc/containers/networks"),
}  # fmt: skip
"""Files that commands write without naming them. One change of these is made at a time."""
AT_ONCE = 16
KEPT = re.compile(r"/(?:run|root)/(?:kept|seed|fstab|saved-[a-z-]+)\b")
OUTCOME = re.compile(r" *\d+ s (?P<word>\w+) +(?P<domain>\S+) +\S+ .*? \| (?P<name>.*?) \| .*")


@dataclass(frozen=True)
class Said:
    """The files that the tools report on one node."""

    debsums: frozenset[str]
    aide: frozenset[str]

    @staticmethod
    def of(text: str) -> Said:
        """Return what the output of ``READ`` names."""
        sums, _, aide = text.partition("== AIDE\n")
        found = set()
        for line in sums.splitlines():
            # The path alone, or "debsums: missing file PATH (from PACKAGE package)".
            path = line.removeprefix("debsums: missing file ").partition(" (from ")[0]
            found |= {path} if path.startswith("/") else set()
        report = json.loads(aide)
        changed = {
            path for path, letters in report.get("changed", {}).items() if set(letters) - UNDONE
        }
        return Said(
            frozenset(found),
            frozenset({*report.get("added", {}), *report.get("removed", {}), *changed}),
        )


def numbered(changes: Iterable[Change]) -> list[Change]:
    """Return changes that keep what they put back in places of their own."""
    made = []
    for number, one in enumerate(changes):
        script, undo = (KEPT.sub(rf"\g<0>-{number}", text) for text in (one.script, one.undo))
        made.append(replace(one, script=script, undo=undo))
    return made


def batches(changes: Iterable[Change], nodes: Sequence[str]) -> list[Round]:
    """Return rounds of many changes on each node, which touch different files."""
    planned: list[tuple[list[Change], set[str]]] = []
    for one in changes:
        text = f"{one.script}\n{one.undo}"
        own = {*touched(one), *INTERFACE.findall(text), *OF_DOMAIN.get(one.domain, ())}
        for some, taken in planned:
            if len(some) < AT_ONCE and not own & taken:
                some.append(one)
                taken |= own
                break
        else:
            planned.append(([one], own))
    made = [tuple(some) for some, _ in planned]
    return [
        dict(zip(nodes, made[at : at + len(nodes)], strict=False))
        for at in range(0, len(made), len(nodes))
    ]


def of_change(change: Change, files: Iterable[str]) -> list[str]:
    """Return the files that a change touches, those below its folders, and those of its units."""
    names = {change.object, *touched(change), *OF_DOMAIN.get(change.domain, ())}
    places = tuple(f"{name}/" for name in names if name.startswith("/"))
    units = {f"{name}{folder}" for name in names for folder in ("", ".d", ".wants")}
    return sorted(
        file
        for file in files
        if f"{file}/".startswith(places) or ("/systemd/" in file and units & {*file.split("/")})
    )


def named(trial: Trial, changes: list[Change]) -> Iterator[tuple[Change, list[str], list[str]]]:
    """Yield each change with the files that debsums and AIDE name for it."""
    lab, nodes = trial.lab, trial.nodes

    def on_all(script: str) -> dict[str, str]:
        with ThreadPoolExecutor() as threads:
            texts = threads.map(lambda node: lab.on(node, script, check=False), nodes)
            return dict(zip(nodes, texts, strict=True))

    on_all(INSTALL)
    on_all(INIT)
    usual = {node: Said.of(text) for node, text in on_all(READ).items()}
    print(f"before: {usual}", flush=True)
    before: Round = {}
    for made in batches(numbered(changes), nodes):
        failed = trial.step(before, made)
        said = {node: Said.of(text) for node, text in on_all(READ).items()}
        for node, some in made.items():
            new = said[node].debsums - usual[node].debsums, said[node].aide - usual[node].aide
            left = set(new[1])
            for change in some:
                if change in failed:
                    print(f"failed: {change.name}: {failed[change]}", flush=True)
                    continue
                sums, aide = (of_change(change, files) for files in new)
                left -= {*aide}
                yield change, sums, aide
            rest = sorted(path for path in left if not KEPT.match(path))
            print(f"{node}: of no change: {' '.join(rest[:60])}", flush=True)
        before = made
    trial.step(before, {})


def outcomes_of(path: str) -> dict[tuple[str, str], bool]:
    """Return what Lockstep found: domain and name of a change -> whether it was named."""
    found: dict[tuple[str, str], bool] = {}
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        if match := OUTCOME.fullmatch(line):
            found[match["domain"], match["name"]] = match["word"] in GOOD
    return found


def main() -> int:
    """Try the chosen changes and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", default="0/1", help="K/N: every N-th change, from the K-th on")
    parser.add_argument("--lockstep", help="output of tests.lab.changes")
    given = parser.parse_args()
    first, step = map(int, given.part.split("/"))
    every = {change.domain for change in catalogue.CHANGES}
    # debsums is about files of packages: all of these are tried.
    changes = catalogue.chosen(every - {"program"}, first, step) + catalogue.chosen({"program"})
    outcomes = outcomes_of(given.lockstep) if given.lockstep else {}
    counted: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as records:
        trial = Trial(Lab(os.environ.get("LOCKSTEP_LAB", "lab")), Path(records))
        for change, sums, aide in named(trial, changes):
            print(f"{change.domain} {change.object} | {change.name}", flush=True)
            print(f"    debsums {sums[:3]} AIDE {aide[:3]}", flush=True)
            row = counted.setdefault(change.domain, Counter())
            row["changes"] += 1
            row["Lockstep"] += outcomes.get((change.domain, change.name), False)
            row["debsums"] += bool(sums)
            row["AIDE"] += bool(aide)
    columns = ("changes", "Lockstep", "debsums", "AIDE")
    print(f"| domain | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    total: Counter[str] = Counter()
    for domain, row in sorted(counted.items()):
        total += row
        print(f"| `{domain}` | {' | '.join(str(row[name]) for name in columns)} |")
    print(f"| all | {' | '.join(str(total[name]) for name in columns)} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
