"""The packet filter: nftables or firewalld, with rules that follow from the node's roles.

docs/firewall.md says what a node accepts, and from where.

Owns     the table inet lockstep (nftables), or the default zone lockstep (firewalld).
Restart  nothing: new rules replace the old ones at once, and open connections stay.
"""

from __future__ import annotations

from functools import partial

from lockstep.facts.firewall import listens, loaded_rules
from lockstep.plan import NodePlan
from lockstep.plan.declaration import Contribution, Declaration, File, Unit, whole_unit
from lockstep.plan.firewall import (
    FIREWALLD,
    FIREWALLD_CONF,
    NFT_FILE,
    NFT_UNIT,
    NFTABLES,
    UNITS,
    ZONE_FILE,
    masked,
)
from lockstep.question import Questions

FIREWALLD_READS = (
    'd="$(mktemp -d)"; trap \'rm -r "$d"\' EXIT; cp -a /etc/firewalld/. "$d"; '
    "for new in {every_new}; do "
    'n="${{new#/etc/firewalld/}}"; cp "$new" "$d/${{n%.lockstep-new}}"; done; '
    'firewall-offline-cmd --system-config "$d" --check-config >/dev/null'
)
"""Checks all of firewalld's files together: its own file names the zone."""


def _is(plan: NodePlan, kind: str) -> bool:
    # Not plan.firewall, whose rules follow from the units of all roles, also of this one.
    wanted = plan.spec.os.firewall
    return wanted is not None and wanted.kind == kind


def _asks(plan: NodePlan) -> Questions:
    yield listens(plan.firewall.accepted[0].ports)
    yield loaded_rules(plan.firewall.kind)


ROLE = Declaration(
    name="firewall",
    title="Firewall",
    when=lambda plan: plan.spec.os.firewall is not None,
    # It masks the other units first, because one of them flushes all rules when it stops.
    after=("os_settings",),
    # nft(8) shows the rules of both.
    packages={"": ("nftables",)},
    more_packages=lambda plan: ("firewalld",) if _is(plan, FIREWALLD) else (),
    files=(
        File(
            path=NFT_FILE,
            template="firewall/firewall.nft.j2",
            validate="nft -c -f {new}",
            wanted=partial(_is, kind=NFTABLES),
        ),
        File(
            path=f"/etc/systemd/system/{NFT_UNIT}",
            template=f"firewall/{NFT_UNIT}.j2",
            validate=whole_unit(NFT_UNIT),
            wanted=partial(_is, kind=NFTABLES),
        ),
        File(
            path=ZONE_FILE,
            template="firewall/zone.xml.j2",
            validate=FIREWALLD_READS,
            wanted=partial(_is, kind=FIREWALLD),
        ),
        File(
            path=FIREWALLD_CONF,
            template="firewall/firewalld.conf.j2",
            validate=FIREWALLD_READS,
            wanted=partial(_is, kind=FIREWALLD),
        ),
    ),
    units=(
        Unit(name=NFT_UNIT, reloads=".nft", wanted=partial(_is, kind=NFTABLES)),
        # The operation reloads it: systemctl reload returns before firewalld has read its files.
        Unit(
            name=UNITS[FIREWALLD],
            program="/usr/sbin/firewalld",
            reads_own_files=False,
            wanted=partial(_is, kind=FIREWALLD),
        ),
    ),
    contributes=Contribution(masked_units=masked),
    operations="lockstep.roles.operations.firewall",
    asks=_asks,
    example={"os": {"firewall": {"kind": "nftables", "services": ["tcp/443"]}}},
)
