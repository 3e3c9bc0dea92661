"""The conditions of units (systemd.unit(5), "Conditions and Asserts")."""

from __future__ import annotations

import os
from collections.abc import Callable

from lockstep.node.fingerprint.unitfiles import Settings
from lockstep.node.readers.tree import below, exists, found_in, is_folder, line_of, rooted

CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_MODULE": 16, "CAP_SYS_RAWIO": 17, "CAP_SYS_ADMIN": 21,
                "CAP_SYS_RESOURCE": 24, "CAP_SYS_TIME": 25, "CAP_MKNOD": 27,
                "CAP_AUDIT_CONTROL": 30, "CAP_MAC_ADMIN": 33}  # fmt: skip
"""capabilities(7), with the numbers of linux/capability.h."""
CONTAINERS = ("systemd-nspawn", "lxc", "lxc-libvirt", "docker", "podman", "rkt", "wsl", "proot",
              "openvz", "container-other", "pouch")  # fmt: skip
"""systemd-detect-virt(1)."""
CONDITIONS: dict[str, Callable[[str], bool]] = {
    "ConditionPathExists": exists,
    "ConditionPathIsDirectory": is_folder,
    "ConditionPathIsSymbolicLink": lambda path: os.path.islink(rooted(path)),
    "ConditionFileIsExecutable": lambda path: os.access(rooted(path), os.X_OK),
    "ConditionDirectoryNotEmpty": lambda path: bool(below(path)),
    "ConditionFileNotEmpty": lambda path: os.path.getsize(rooted(path)) > 0,
}


def _holds(setting: str, word: str, virtual: str) -> bool | None:
    """Return whether one condition holds; None if that is not known here."""
    if setting == "ConditionVirtualization":
        kinds = {virtual or "no", "yes" if virtual else "no",
                 ("container" if virtual in CONTAINERS else "vm") if virtual else "no"}  # fmt: skip
        return word in kinds
    if setting == "ConditionCapability":
        bounding = found_in("/proc/1/status", r"^CapBnd:\s+(\w+)", "capabilities")
        number = CAPABILITIES.get(word)
        return None if number is None else bool(int(bounding, 16) >> number & 1)
    if setting == "ConditionKernelCommandLine":
        options = line_of("/proc/cmdline", "").split()
        return word in options or any(option.startswith(f"{word}=") for option in options)
    known = CONDITIONS.get(setting)
    try:
        return known(word) if known else None
    except OSError:
        return False


def conditions(settings: Settings, virtual: str = "") -> bool:
    """Return whether a unit's conditions hold; False as well if that cannot be known."""
    if settings.get("Service.ExecCondition"):
        return False
    triggers: list[bool] = []
    for name, values in settings.items():
        section, _, setting = name.partition(".")
        if section != "Unit" or not setting.startswith(("Condition", "Assert")):
            continue
        for value in values:
            word = value.lstrip("|!")
            holds = _holds(setting, word, virtual)
            if holds is None:
                return False
            if "!" in value[: len(value) - len(word)]:
                holds = not holds
            if value.startswith("|"):
                triggers.append(holds)
            elif not holds:
                return False
    return any(triggers) if triggers else True
