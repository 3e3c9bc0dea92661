"""Runs the repair that each finding names, in place of the catalogue's undo, and checks again."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from typing_extensions import override

from tests.lab.changes import Change
from tests.lab.changes.judge import RULES, Finding, Key, Outcome, judged, key, left, shown
from tests.lab.changes.rounds import Round, packed, touched
from tests.lab.changes.trial import CHANGE_S, INVENTORY, MARK, SETTLES_S, Trial
from tests.lab.labs import ROOT, Lab

FOR_PEOPLE = re.compile(r"(?:make|decide|find|apply) ")
"""How the text of a repair starts that is no command."""
AT_ONCE = 12
"""Changes that are made on each node at once."""
TOOLS = "DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends acl e2fsprogs"
"""Installs setfacl(1) and chattr(1), which the lab's machines lack."""
DEPLOYED_AT_ONCE = 16
GOOD = frozenset({"repaired", "person"})
KEPT = re.compile(r"/(?:run|root)/(?:kept|keep|seed|fstab|saved-[a-z-]+)\b")


@dataclass(frozen=True)
class Attempt:
    """What the named repair of one change did."""

    outcome: Outcome
    how: str
    """command (the finding names one for the node); deploy (of a role); person (no command)."""
    word: str
    """repaired (no finding about the change is left); person (there was nothing to run); stays
    (still found); missed (the change was not found, or could not be made)."""
    text: str

    @property
    def is_good(self) -> bool:
        """Whether the repair did what it says, if it says anything."""
        return self.word in GOOD

    @override
    def __str__(self) -> str:
        """Return one line about the repair, whole."""
        one = self.outcome.change
        about = f"{one.domain} {self.outcome.node} {one.object} | {one.name}"
        return f"{self.word} {self.how} {about} | {self.text}"


def shell_command(finding: Finding) -> str:
    """Return the command that a finding names for its node, "" if none."""
    start, repair = f"on {finding['node']}: ", str(finding["repair"])
    if f", or run {start}" in repair:
        return repair.partition(f", or run {start}")[2]
    if not finding["rule"].startswith(RULES) or not repair.startswith(start):
        return ""
    text = repair.removeprefix(start)
    return "" if FOR_PEOPLE.match(text) else text


@dataclass
class Repairing:
    """Repairs of the changes on one lab, whose nodes have the programs that repairs need."""

    trial: Trial
    messages: list[str] = field(default_factory=list)
    """Findings that are left after the undo, or that are there only after the repair."""

    def attempts(self, changes: Sequence[Change], at_once: int = AT_ONCE) -> Iterator[Attempt]:
        """Yield the outcome of each change's repair; those by a deploy come last, together."""
        by_deploy: list[Change] = []
        yield from self._tried(list(_numbered(changes)), at_once, by_deploy)
        yield from self._tried(by_deploy, max(at_once, DEPLOYED_AT_ONCE), None)

    def _tried(
        self, changes: Sequence[Change], at_once: int, by_deploy: list[Change] | None
    ) -> Iterator[Attempt]:
        """Yield the outcomes; a change that is not told apart from others is tried again alone."""
        again: list[Change] = []
        for attempt in self._of_rounds(packed(changes, self.trial.nodes, at_once), by_deploy):
            if attempt.word == "missed":
                again.append(attempt.outcome.change)
            else:
                yield attempt
        yield from self._of_rounds(packed(again, self.trial.nodes, 1), by_deploy)

    def _of_rounds(
        self, planned: Iterable[Round], by_deploy: list[Change] | None
    ) -> Iterator[Attempt]:
        before: Round = {}
        earlier: list[Finding] = []
        for made in (*planned, {}):
            failed = self.trial.step(before, made)
            found = self.trial.new()
            if _left(earlier, found, made):
                time.sleep(SETTLES_S)
                found = self.trial.new()
            if remaining := _left(earlier, found, made):
                self.messages.append(f"left after the undo: {shown(remaining)}")
                self.trial.usual |= {key(one) for one in remaining}
                found = [one for one in found if key(one) not in self.trial.usual]
            yield from self._repaired(made, found, failed, by_deploy)
            before, earlier = made, found

    def _repaired(
        self,
        made: Round,
        found: list[Finding],
        failed: dict[Change, str],
        by_deploy: list[Change] | None,
    ) -> Iterator[Attempt]:
        """Repair what was found of a round, and yield the outcomes."""
        if not made:
            return
        outcomes = [
            Outcome(change, node, "failed", failed[change])
            if change in failed
            else judged(change, node, made, found)
            for node, some in made.items()
            for change in some
        ]
        said = self._run(found)
        if by_deploy is None:
            said |= self._deploy(found)
        after = self.trial.new()
        if any(key(one) in said for one in after):
            time.sleep(SETTLES_S)
            after = self.trial.new()
        there = {key(one) for one in found}
        if new := [one for one in after if key(one) not in there]:
            self.messages.append(f"only after the repair: {shown(new)}")
        stay = {key(one): one for one in after}
        explained = {key(one) for outcome in outcomes for one in outcome.findings}
        if rest := [one for one in after if key(one) in there - explained and key(one) in said]:
            self.messages.append(f"not repaired, of no change: {_said(rest, said)}")
        for outcome in outcomes:
            how = _how(outcome.findings)
            if by_deploy is not None and how == "deploy":
                by_deploy.append(outcome.change)
                continue
            yield _attempt(outcome, how, stay, said)

    def _run(self, findings: Iterable[Finding]) -> dict[Key, str]:
        """Run the commands that findings name, as a person does who answers yes."""
        of_nodes: dict[str, list[tuple[Key, str]]] = {}
        for one in findings:
            if text := shell_command(one):
                of_nodes.setdefault(one["node"], []).append((key(one), text))
        with ThreadPoolExecutor() as threads:
            done = threads.map(self._on_node, of_nodes, of_nodes.values())
            return {place: text for some in done for place, text in some.items()}

    def _on_node(self, node: str, commands: Sequence[tuple[Key, str]]) -> dict[Key, str]:
        ran: dict[str, int] = {}
        for _, text in commands:
            ran.setdefault(text, len(ran))
        lines = [
            f"yes | timeout {CHANGE_S} sh -c {shlex.quote(text)} 2>&1; s=$?; echo; "
            f"echo {MARK} {number} $s"
            for text, number in ran.items()
        ]
        script = "\n".join(("export DEBIAN_FRONTEND=noninteractive", *lines))
        out = self.trial.lab.on(node, script, check=False)
        said: dict[str, str] = {}
        rest = out
        for text, number in ran.items():
            own, _, rest = rest.partition(f"{MARK} {number} ")
            status, _, rest = rest.partition("\n")
            said[text] = f"{text} -> {status}: {own.strip()[-200:]}"
        return {place: said[text] for place, text in commands}

    def _deploy(self, findings: Iterable[Finding]) -> dict[Key, str]:
        """Run ``lockstep repair`` on the nodes whose findings name a deploy."""
        some = [one for one in findings if one["roles"]]
        if not some:
            return {}
        nodes = sorted({one["node"] for one in some})
        lockstep = str(ROOT / ".venv/bin/lockstep")
        limits = [word for node in nodes for word in ("--limit", node)]
        done = self.trial.lab.command(
            *("env", f"CHANGES_RECORDS={self.trial.records}"),
            *(lockstep, "repair", "-y", INVENTORY, *limits),
            check=False,
        )
        tail = "" if done.returncode in (0, 1) else (done.stdout + done.stderr)[-300:]
        return {key(one): f"lockstep repair -> {done.returncode} {tail}" for one in some}


def _left(before: list[Finding], now: list[Finding], made: Round) -> list[Finding]:
    """Return what is left of the round before, without what this round changes on the same node."""
    return [
        one
        for one in left(before, now, made)
        if not any(one["device"] in touched(change) for change in made.get(one["node"], ()))
    ]


def install_tools(lab: Lab) -> None:
    """Install on all workers the programs of repairs that the lab's image lacks."""
    status = json.loads(lab.lab("status", "--json").stdout)
    with ThreadPoolExecutor() as threads:
        workers = (one["name"] for one in status["nodes"] if one["role"] == "worker")
        list(threads.map(lambda node: lab.on(node, TOOLS), workers))


def _numbered(changes: Iterable[Change]) -> Iterator[Change]:
    """Yield changes that keep what they put back in places of their own."""
    for number, one in enumerate(changes):
        script, undo = (KEPT.sub(rf"\g<0>-{number}", text) for text in (one.script, one.undo))
        yield replace(one, script=script, undo=undo)


def _how(findings: Sequence[Finding]) -> str:
    if any(one["roles"] for one in findings):
        return "deploy"
    return "command" if any(map(shell_command, findings)) else "person"


def _attempt(outcome: Outcome, how: str, stay: dict[Key, Finding], said: dict[Key, str]) -> Attempt:
    left_over = [stay[key(one)] for one in outcome.findings if key(one) in stay]
    if not outcome.findings:
        return Attempt(outcome, how, "missed", f"{outcome.word}: {outcome.text}")
    if not left_over:
        return Attempt(outcome, how, "repaired", _said(outcome.findings, said))
    if how == "person":
        repairs = " ; ".join(str(one["repair"]) for one in outcome.findings)
        return Attempt(outcome, how, "person", f"{repairs} | {shown(outcome.findings)}")
    return Attempt(outcome, how, "stays", f"{_said(left_over, said)} | {shown(left_over)}")


def _said(findings: Iterable[Finding], said: dict[Key, str]) -> str:
    return " ; ".join(said.get(key(one), str(one["repair"])) for one in findings)
