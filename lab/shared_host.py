"""Resources shared by all labs of a host: the caching proxy, the registry and a kernel limit."""

from pathlib import Path

from lab import places, proxy
from lab.kubernetes import registry
from lab.removal import remove_tree

# Every systemd uses about six inotify instances, and those of all nodes count for the host's root:
# with the kernel's default of 128, only about twenty machines can boot.
LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
LIMIT_WANTED = 8192


def _folder() -> Path:
    return places.state_folder() / ".shared"


def _members() -> Path:
    return _folder() / "labs"


def _with_registry() -> Path:
    return _folder() / "kubernetes"


def _limit_before() -> Path:
    return _folder() / "inotify_instances_before"


def labs() -> list[str]:
    """Return the names of the labs that use the host."""
    return sorted(path.name for path in _members().iterdir()) if _members().is_dir() else []


def join(lab: str, *, with_registry: bool = False) -> None:
    """Register a lab, start the proxy if needed and raise the limit.

    Args:
        lab: its name.
        with_registry: whether it needs the container registry.

    Raises:
        LabError: the proxy or the registry cannot be started.
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
        if with_registry:
            _with_registry().mkdir(exist_ok=True)
            (_with_registry() / lab).touch()
            registry.start()


def leave(lab: str) -> None:
    """Unregister a lab; after the last lab, stop the proxy and restore the limit.

    The registry stops after the last lab that needs it.
    """
    if not _folder().is_dir():
        return
    with places.locked(".shared"):
        (_members() / lab).unlink(missing_ok=True)
        if (_with_registry() / lab).exists():
            (_with_registry() / lab).unlink()
            if not any(_with_registry().iterdir()):
                registry.stop()
        if labs():
            return
        proxy.stop()
        # If the value was changed by someone else, keep it.
        if _limit_before().exists() and int(LIMIT.read_text()) == LIMIT_WANTED:
            LIMIT.write_text(_limit_before().read_text())
        remove_tree(_folder())
