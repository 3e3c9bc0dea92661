"""The caching package proxy of all labs on a host, the nodes' only package source."""

import os
import shutil
from pathlib import Path

from lab import places
from lab.commands import attempt, run
from lab.errors import LabError
from lab.listening import answers, start_listening
from lab.processes import ProcessRecord, alive, kill
from lab.removal import remove_tree

# One fixed address for all labs, on the host's loopback, outside every lab's prefix.
ADDRESS = "fd4c:5354::1"
PORT = 31420
URI = f"http://[{ADDRESS}]:{PORT}"
USER = "apt-cacher-ng"
# Host name for which the proxy serves the repositories of this host's labs.
REPOSITORY_HOST = "lockstep-nvidia"


def repositories() -> Path:
    """Return the folder that the proxy serves as REPOSITORY_HOST."""
    return places.cache_folder() / "repository" / "packages"


def _record_path() -> Path:
    return places.proxy_folder() / "process.json"


def _log_path() -> Path:
    return places.proxy_folder() / "proxy.log"


def _record() -> ProcessRecord | None:
    if not _record_path().exists():
        return None
    return ProcessRecord.model_validate_json(_record_path().read_text())


def _save_record(record: ProcessRecord) -> None:
    _record_path().write_text(record.model_dump_json() + "\n")


def start() -> None:
    """Start the proxy if it does not run. The caller must hold the lock of ``lab.shared_host``.

    Raises:
        LabError: the proxy does not answer, or another process uses its port.
    """
    places.proxy_folder().mkdir(parents=True, exist_ok=True)
    if not _address_present():
        run(
            ["ip", "-6", "address", "add", f"{ADDRESS}/128", "dev", "lo", "nodad"],
            what="adding the proxy's address to the host",
        )
    running = _record()
    if running is not None and alive(running):
        configuration = _configuration_path()
        if configuration.exists() and _repository_line() in configuration.read_text():
            return
        kill(running)  # started by an older version without the repository
    if answers(ADDRESS, PORT):
        raise LabError(
            f"[{ADDRESS}]:{PORT} is in use by a process that is not recorded in "
            f"{_record_path()} (a lab with another {places.BASE_VARIABLE}?)",
            f"ss -ltnp 'sport = {PORT}'",
        )
    _start()


def stop() -> None:
    """Stop the proxy and remove its address from the host; idempotent."""
    record = _record()
    if record is not None:
        kill(record)
    if _address_present():
        run(
            ["ip", "-6", "address", "del", f"{ADDRESS}/128", "dev", "lo"],
            what="removing the proxy's address from the host",
        )
    remove_tree(places.proxy_folder())


def _address_present() -> bool:
    return ADDRESS in run(
        ["ip", "-6", "-o", "address", "show", "dev", "lo", "to", f"{ADDRESS}/128"],
        what="reading the host's addresses",
    )


def _configuration_path() -> Path:
    return places.proxy_folder() / "conf" / "acng.conf"


def _repository_line() -> str:
    return f"LocalDirs: {REPOSITORY_HOST} {repositories()}"


def _start() -> None:
    cache = places.cache_folder() / "apt"
    logs = cache / "log"
    configuration = _configuration_path()
    for folder in (cache, logs):
        folder.mkdir(parents=True, exist_ok=True)
        shutil.chown(folder, USER, USER)
    configuration.parent.mkdir(parents=True, exist_ok=True)
    repositories().mkdir(parents=True, exist_ok=True)
    lines = [
        f"CacheDir: {cache}",
        f"LogDir: {logs}",
        "SupportDir: /usr/lib/apt-cacher-ng",
        f"Port: {PORT}",
        # Without brackets, it would be parsed as host "fd4c:5354:" with port 1.
        f"BindAddress: [{ADDRESS}]",
        # No control socket: the default path is that of the packaged service.
        "SocketPath:",
        "ReportPage:",
        # Port 443 allows it to fetch from https archives for the nodes.
        "AllowUserPorts: 80 443",
        _repository_line(),
        *_connect_protocol(),
        *(f"Proxy: {upstream}" for upstream in _upstream_proxy()),
    ]
    configuration.write_text("\n".join(lines) + "\n")
    argv = [
        *("setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups"),
        *("apt-cacher-ng", "-c", str(configuration.parent), "ForeGround=1"),
    ]
    start_listening("caching proxy", ADDRESS, PORT, argv, _save_record, _log_path())


def _connect_protocol() -> list[str]:
    """Limit the proxy to one address family if only that one has a default route.

    Names often resolve to both families, and it would try the unreachable one first.
    """
    routed = [
        family
        for family, option in (("v4", "-4"), ("v6", "-6"))
        if attempt(["ip", option, "route", "show", "default"]).stdout.strip()
    ]
    return [f"ConnectProto: {routed[0]}"] if len(routed) == 1 else []


def _upstream_proxy() -> list[str]:
    """Return the setting for the HTTP proxy of the host, if it has one."""
    for variable in ("http_proxy", "HTTP_PROXY"):
        if os.environ.get(variable):
            return [os.environ[variable]]
    configured = attempt(["apt-config", "shell", "value", "Acquire::http::Proxy"]).stdout.strip()
    value = configured.removeprefix("value=").strip("'")
    return [value] if value and value not in (URI, "DIRECT") else []
