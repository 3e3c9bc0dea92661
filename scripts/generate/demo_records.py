"""The records of ``lockstep demo``: nodes as the unit tests have them, with a few seeded faults."""

from __future__ import annotations

import json
import lzma
from dataclasses import replace
from typing import Any

from lockstep.checks.context import Context
from lockstep.commands.demo import DEMO, FILES, INVENTORY, RECORDS
from lockstep.inventory import load
from lockstep.probe.parse import dumps
from tests.checks import recorded
from tests.checks.recorded_fingerprint import objects, with_objects

DRIVER, OLDER = "580.82.07", "580.65.06"
BURN_IN = "17 * * * * root /root/burn-in.sh --all-gpus\n"

FAULTS: tuple[tuple[str, str, tuple[str, ...], Any], ...] = (
    ("gpu05", "gpu.pcie.width_current", ("gpu3",), 8),
    *((node, "platform", ("bios_version",), "2.0") for node in ("gpu07", "gpu08")),
    ("gpu09", "sysctl.running", ("vm.swappiness",), "60"),
    ("gpu11", "gpu.ecc.uncorrected_volatile", ("gpu6",), 2),
    ("gpu14", "hugepages", ("1G", "1"), 0),
    ("gpu02", "driver.module", ("version",), OLDER),
    ("gpu02", "driver.module_on_disk", ("version",), OLDER),
    ("gpu02", "driver.library", (), OLDER),
)
"""Node, reading, place inside of it, and the wrong value; two more are in ``_cluster``."""


def files() -> dict[str, bytes]:
    """Return the compressed records; the bytes that exist if they have the same content."""
    # Some values come from sets, in any order.
    text = json.dumps(json.loads(dumps(_cluster().reading)), sort_keys=True).encode("ascii")
    made = lzma.compress(text)
    path = DEMO / RECORDS
    # Another version of liblzma may compress differently.
    if path.is_file() and lzma.decompress(there := path.read_bytes()) == text:
        made = there
    return {f"templates/demo/{RECORDS}": made}


def _cluster() -> Context:
    plan = load(str(DEMO / INVENTORY))
    named = replace(plan, inventory="")  # the folder of this checkout must not be in the records
    raw = {name: recorded.raw_record(node) for name, node in named.nodes.items()}
    for record in raw.values():
        record["readings"][FILES] = {"value": {}}  # lockstep demo fills it in
    start = recorded.context(named, raw)
    packages = raw["gpu02"]["readings"]["packages"]["value"]
    older = (
        ("gpu02", "packages", (name,), version.replace(DRIVER, OLDER))
        for name, version in packages.items()
        if version.startswith(DRIVER)
    )
    for fault in (*FAULTS, *older):
        start = recorded.mutated(start, *fault)
    found = objects("gpu12", named.nodes["gpu12"].address)
    found["file"]["/etc/cron.d/burn-in"] = {"mode": "0644", "content": BURN_IN}
    return with_objects(start, {"gpu12": found})
