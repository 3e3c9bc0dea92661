"""``lockstep demo``: checks a simulated cluster, for people without machines."""

from __future__ import annotations

import argparse
import lzma
import shlex
from pathlib import Path

from lockstep.commands import Argument, Command, check, copy_folder, write
from lockstep.files import managed
from lockstep.inventory import load
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.probe.parse import dumps, loads
from lockstep.probe.record import Reading, Record, Taken, only_records
from lockstep.render import TEMPLATES
from lockstep.report import ExitStatus

DEMO = TEMPLATES / "demo"
INVENTORY, RECORDS, PAGE = "inventory.py", "records.json.xz", "report.html"
FILES = "files"
"""The reading that ``lockstep demo`` makes itself: it follows the templates of this release."""


def _run(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.folder)
    copy_folder(DEMO, folder, RECORDS)
    inventory, records, page = (
        str(folder / name) for name in (INVENTORY, Path(RECORDS).stem, PAGE)
    )
    write(records, dumps(deployed(load(inventory))))
    words = (inventory, "--records", records, "--html", page)
    print("A simulated cluster: one head, and 16 workers with 8 GPUs each. Some faults are seeded.")
    print(f"$ {shlex.join(('lockstep', 'check', *words))}\n", flush=True)
    status = check.COMMAND(check.COMMAND.parsed(words))
    if status == ExitStatus.DIFFERS:
        print(_next(inventory, records, page))
        return ExitStatus.CONSISTENT
    return status


def deployed(plan: ClusterPlan) -> Reading:
    """Return the records of the simulated nodes, which have the files of this release."""
    reading = loads(lzma.decompress((DEMO / RECORDS).read_bytes()).decode("ascii"))
    return {
        name: _with_files(record, plan.nodes[name])
        for name, record in only_records(reading).items()
    }


def _with_files(record: Record, node: NodePlan) -> Record:
    files = Taken(
        value={
            file.path: {
                "sha256": file.sha256,
                "mode": file.mode,
                "user": file.user,
                "group": file.group,
            }
            for file in managed(node, None)
        }
    )
    return record.model_copy(update={"readings": {**record.readings, FILES: files}})


def _next(inventory: str, records: str, page: str) -> str:
    lockstep = shlex.join(("lockstep", "check", inventory, "--records", records))
    return f"""
The same as a page: {page}

Try next:
  lockstep explain gpu.pcie_width
  {lockstep} --limit gpu05
  lockstep plan {shlex.quote(inventory)} gpu05
  lockstep init my-cluster

The faults are seeded, so lockstep demo ends with 0. lockstep check ends with 1 if nodes differ."""


COMMAND = Command(
    run=_run,
    help="check a simulated cluster, without machines: a report and a page to look at",
    description=(
        "Writes the description, the saved records and the report of a simulated cluster with "
        "seeded faults into a folder. It contacts no machine. Exit status: 0 the report was made, "
        "3 the folder is not empty."
    ),
    arguments=(
        Argument(
            "folder",
            metavar="DIR",
            nargs="?",
            default="lockstep-demo",
            help="folder that is empty or does not exist; default: lockstep-demo",
        ),
    ),
)
