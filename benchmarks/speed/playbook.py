"""Generates an Ansible playbook for the workers from the same plan that the roles use.

Files, packages, holds, masks, units and running sysctls are tasks of ansible-core; commands read
what it has no modules for. The playbook does less than the roles (no validation of files, no
restarts after changes, no drivers that wait for a reboot), so Ansible has an advantage.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from lockstep.files import ManagedFile, managed
from lockstep.plan import NodePlan
from lockstep.secrets import Secrets

Task = dict[str, Any]
FORKS = 50
CONFIG = f"""[defaults]
inventory = hosts
forks = {FORKS}
host_key_checking = True
gathering = explicit
interpreter_python = /usr/bin/python3
[ssh_connection]
pipelining = True
ssh_args = -F {{ssh_config}} -o ControlMaster=auto -o ControlPersist=60s
"""
GPU_FIELDS = "persistence_mode,power.limit,compute_mode,ecc.mode.pending"


def write(
    folder: Path, nodes: Collection[NodePlan], secrets: Secrets | None, ssh_config: str
) -> None:
    """Write the playbook, inventory, configuration and all nodes' files to a folder.

    Args:
        folder: a private folder, because the files contain secrets.
        nodes: workers of one hardware class; the tasks are those of the first one.
        secrets: secrets of the cluster.
        ssh_config: ssh configuration for the nodes.
    """
    for node in nodes:
        for file in managed(node, secrets):
            path = folder / "files" / node.name / file.path.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.content)
    write_hosts(folder, [node.name for node in nodes])
    (folder / "ansible.cfg").write_text(CONFIG.format(ssh_config=ssh_config))
    play = {"hosts": "worker", "become": True, "tasks": tasks(next(iter(nodes)), secrets)}
    # JSON is valid YAML.
    (folder / "site.yml").write_text(json.dumps([play], indent=1))


def write_hosts(folder: Path, hosts: Collection[str]) -> None:
    """Write the inventory: names, each with its variables."""
    lines = ("[worker]", *hosts, "[worker:vars]", "ansible_user=ops")
    (folder / "hosts").write_text("\n".join(lines) + "\n")


def call(folder: Path, machines: Mapping[str, str], ssh_config: str) -> None:
    """Add names for the nodes of a playbook.

    Args:
        folder: folder of the playbook.
        machines: name -> node in the playbook.
        ssh_config: ssh configuration for the names.
    """
    for name, node in machines.items():
        (folder / "files" / name).symlink_to(node, target_is_directory=True)
    write_hosts(folder, [f"{name} machine={node}" for name, node in machines.items()])
    (folder / "ansible.cfg").write_text(CONFIG.format(ssh_config=ssh_config))


def tasks(node: NodePlan, secrets: Secrets | None) -> list[Task]:
    """Return the tasks that configure a node, and others of its class, according to its plan."""
    by_role = [(role, list(files)) for role, files in groupby(managed(node, secrets), _role)]
    first = [_files(role, files) for role, files in by_role if role == "packages"]
    others = [_files(role, files) for role, files in by_role if role != "packages"]
    return [
        *first,
        *_packages(node),
        *others,
        *_running(node),
        *map(_unit, node.system.units),
        *_read(),
    ]


def _role(file: ManagedFile) -> str:
    return file.role


def _files(role: str, files: list[ManagedFile]) -> Task:
    return {
        "name": f"{role}: files",
        "ansible.builtin.copy": {
            "src": "files/{{ inventory_hostname }}{{ item.path }}",
            "dest": "{{ item.path }}",
            "owner": "{{ item.owner }}",
            "group": "{{ item.group }}",
            "mode": "{{ item.mode }}",
        },
        "loop": [
            {"path": file.path, "owner": file.user, "group": file.group, "mode": f"0{file.mode}"}
            for file in files
        ],
        "loop_control": {"label": "{{ item.path }}"},
    }


def _packages(node: NodePlan) -> list[Task]:
    versions = node.software.versions
    names = [
        f"{name}={versions[name]}" if name in versions else name for name in node.software.packages
    ]
    held = " ".join(sorted(node.software.held))
    return [
        {
            "name": "packages",
            "ansible.builtin.apt": {
                "name": names,
                "install_recommends": False,
                "update_cache": True,
                "cache_valid_time": 86400,
            },
            "environment": {"LOCKSTEP_DEFER_START": "1"},
        },
        {"name": "held", "register": "held", **_reads("apt-mark showhold")},
        {
            "name": "hold",
            "ansible.builtin.command": f"apt-mark hold {held}",
            "when": f"'{held}'.split() is not subset(held.stdout_lines)",
        },
    ]


def _running(node: NodePlan) -> list[Task]:
    keys = " ".join(node.system.sysctl)
    values = [" ".join(value.split()) for value in node.system.sysctl.values()]
    settings = " ".join(f"'{key}={value}'" for key, value in node.system.sysctl.items())
    return [
        {"name": "sysctl", "register": "running", **_reads(f"sysctl -n {keys}")},
        {
            "name": "set sysctl",
            "ansible.builtin.command": f"sysctl -q -w {settings}",
            "when": f"running.stdout_lines != {values}",
        },
        {
            "name": "masked units",
            "ansible.builtin.file": {
                "src": "/dev/null",
                "dest": "/etc/systemd/system/{{ item }}",
                "state": "link",
            },
            "loop": list(node.system.masked_units),
        },
    ]


def _unit(unit: str) -> Task:
    service = {"name": unit, "enabled": True, "state": "started"}
    return {"name": unit, "ansible.builtin.systemd_service": service}


def _read() -> list[Task]:
    """Return tasks without a module: commands that read the state, like a rerun."""
    return [
        {"name": "gpus", **_reads(f"nvidia-smi --query-gpu={GPU_FIELDS} --format=csv,noheader")},
        {
            "name": "registered",
            **_reads("scontrol -o show node {{ machine | default(inventory_hostname) }}"),
        },
    ]


def _reads(command: str) -> Task:
    return {"ansible.builtin.command": command, "changed_when": False}
