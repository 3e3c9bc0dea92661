"""What all labs of a host share and the last one gives back: the caching proxy, a kernel limit."""

from pathlib import Path

from lab import places, proxy
from lab.removal import remove_tree

# Every systemd watches files with half a dozen inotify instances, and all nodes' count as the host
# root's: with the kernel's default of 128, machines stop booting at about twenty.
LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
LIMIT_WANTED = 8192


def _folder() -> Path:
    return places.state_folder() / ".shared"


def _members() -> Path:
    return _folder() / "labs"


def _limit_before() -> Path:
    return _folder() / "inotify_instances_before"


def labs() -> list[str]:
    """Names of the labs that share the host now."""
    return sorted(path.name for path in _members().iterdir()) if _members().is_dir() else []


def join(lab: str) -> None:
    """Note that a lab uses the host, and see that the proxy runs and the limit is high enough.

    Raises:
        LabError: the proxy does not run.
    """
    with places.locked(".shared"):
        _members().mkdir(parents=True, exist_ok=True)
        (_members() / lab).touch()
        now = int(LIMIT.read_text())
        if now < LIMIT_WANTED:
            if not _limit_before().exists():
                _limit_before().write_text(f"{now}\n")
            LIMIT.write_text(f"{LIMIT_WANTED}\n")
        proxy.start()


def leave(lab: str) -> None:
    """Note that a lab is gone; with the last one the proxy ends and the limit is as it was."""
    if not _folder().is_dir():
        return
    with places.locked(".shared"):
        (_members() / lab).unlink(missing_ok=True)
        if labs():
            return
        proxy.stop()
        # Somebody else may have set another value since: then it is theirs.
        if _limit_before().exists() and int(LIMIT.read_text()) == LIMIT_WANTED:
            LIMIT.write_text(_limit_before().read_text())
        remove_tree(_folder())
