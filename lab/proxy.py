"""The caching proxy all labs of a host share: the nodes' only way to packages."""

import os
import shutil
import socket
import time
from pathlib import Path

from lab import places
from lab.commands import attempt, run
from lab.errors import LabError
from lab.processes import ProcessRecord, alive, kill, start_recorded
from lab.removal import remove_tree

# One fixed address for all labs: it is on the host's loopback, so it collides with no lab's prefix.
ADDRESS = "fd4c:5354::1"
PORT = 31420
URI = f"http://[{ADDRESS}]:{PORT}"
USER = "apt-cacher-ng"
# To whom asks the proxy for this host, it serves the repositories of this host's labs.
REPOSITORY_HOST = "lockstep-nvidia"
ANSWERS_WITHIN_S = 20.0


def repositories() -> Path:
    """The folder it serves as REPOSITORY_HOST."""
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
    """See that the proxy runs. Call with the lock of ``lab.shared_host`` held.

    Raises:
        LabError: it does not answer, or something else holds its port.
    """
    places.proxy_folder().mkdir(parents=True, exist_ok=True)
    if not _address_present():
        run(
            ["ip", "-6", "address", "add", f"{ADDRESS}/128", "dev", "lo", "nodad"],
            what="giving the host the proxy's address",
        )
    running = _record()
    if running is not None and alive(running):
        configuration = _configuration_path()
        if configuration.exists() and _repository_line() in configuration.read_text():
            return
        kill(running)  # started by a checkout that had no repository
    if _answers():
        raise LabError(
            f"[{ADDRESS}]:{PORT} is in use by a process that is not in "
            f"{_record_path()} (a lab with another {places.BASE_VARIABLE}?)",
            f"ss -ltnp 'sport = {PORT}'",
        )
    _start()


def stop() -> None:
    """End the proxy and take its address from the host; repeatable."""
    record = _record()
    if record is not None:
        kill(record)
    if _address_present():
        run(
            ["ip", "-6", "address", "del", f"{ADDRESS}/128", "dev", "lo"],
            what="taking the proxy's address from the host",
        )
    remove_tree(places.proxy_folder())


def _address_present() -> bool:
    return ADDRESS in run(
        ["ip", "-6", "-o", "address", "show", "dev", "lo", "to", f"{ADDRESS}/128"],
        what="reading the host's addresses",
    )


def _answers() -> bool:
    try:
        with socket.create_connection((ADDRESS, PORT), timeout=2):
            return True
    except OSError:  # refused or unreachable: nobody listens there
        return False


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
        # Bare, it would be read as a host "fd4c:5354:" with port 1.
        f"BindAddress: [{ADDRESS}]",
        # No control socket: the default path belongs to the packaged service.
        "SocketPath:",
        "ReportPage:",
        # 443 lets it fetch https archives on the nodes' behalf.
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
    process = start_recorded(argv, _save_record, log=_log_path())
    deadline = time.monotonic() + ANSWERS_WITHIN_S
    while not _answers():
        if process.poll() is not None or time.monotonic() > deadline:
            tail = "\n    ".join(_log_path().read_text(errors="replace").splitlines()[-5:])
            raise LabError(
                f"the caching proxy does not answer on [{ADDRESS}]:{PORT}; "
                f"{_log_path()} ends:\n    {tail}"
            )
        time.sleep(0.05)


def _connect_protocol() -> list[str]:
    """Hold the proxy to the one family that has a default route, where only one has.

    Names often resolve to both families, and it would try the dead one first.
    """
    routed = [
        family
        for family, option in (("v4", "-4"), ("v6", "-6"))
        if attempt(["ip", option, "route", "show", "default"]).stdout.strip()
    ]
    return [f"ConnectProto: {routed[0]}"] if len(routed) == 1 else []


def _upstream_proxy() -> list[str]:
    """The http proxy the host itself has to use, if any."""
    for variable in ("http_proxy", "HTTP_PROXY"):
        if os.environ.get(variable):
            return [os.environ[variable]]
    configured = attempt(["apt-config", "shell", "value", "Acquire::http::Proxy"]).stdout.strip()
    value = configured.removeprefix("value=").strip("'")
    return [value] if value and value not in (URI, "DIRECT") else []
