"""Field types: the values that each of them accepts, and the error message for other values."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Annotated, Literal

from netaddr import AddrFormatError, IPAddress, IPNetwork
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
)

from lockstep.spec import names


class Model(BaseModel):
    """Base class of all parts of the spec: immutable, and unknown fields are errors."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, arbitrary_types_allowed=True, ser_json_timedelta="float"
    )


def _parsed(parse: Callable[[str], object], allowed: str) -> BeforeValidator:
    """Return a validator that parses a value; its error names the allowed values."""

    def check(value: object) -> object:
        try:
            return parse(str(value))
        except (AddrFormatError, ValueError) as error:
            raise ValueError(allowed) from error

    return BeforeValidator(check)


def _network(value: object) -> IPNetwork:
    text = str(value)
    try:
        # netaddr would accept an address without a prefix length as a network of one address.
        network = IPNetwork(text if "/" in text else "")
    except (AddrFormatError, ValueError) as error:
        raise ValueError("a network with its prefix length, such as fd12:3456:789a::/64") from error
    if network.ip != network.network:
        raise ValueError(f"{network.cidr}: the host bits must be zero")
    return network


def _range_of(pattern: str, allowed: str) -> BeforeValidator:
    """Return a validator for a name range in which every name must match a pattern."""

    def check(text: str) -> str:
        if not all(re.fullmatch(pattern, name) for name in names.expand(text) or ("",)):
            raise ValueError(allowed)
        return text

    return _parsed(check, allowed)


def _memlock(value: object) -> object:
    if value == "unlimited" or (type(value) is int and value > 0):
        return value
    raise ValueError('"unlimited", or a whole number of KiB (1 or more)')


def _matching(pattern: str, allowed: str) -> AfterValidator:
    """Return a validator that rejects text that does not match a pattern.

    The text is later written into files and shell commands.
    """

    def check(value: str) -> str:
        if re.fullmatch(pattern, value) is None:
            raise ValueError(allowed)
        return value

    return AfterValidator(check)


Folder = Annotated[
    str,
    _matching(r"/.*", "an absolute path, beginning with / or ~"),
    BeforeValidator(lambda value: os.path.expanduser(str(value))),
]
Address = Annotated[
    IPAddress,
    _parsed(IPAddress, "an IPv6 or IPv4 address without a prefix, such as fd12::11"),
    PlainSerializer(str),
]
Network_ = Annotated[IPNetwork, BeforeValidator(_network), PlainSerializer(str)]
CpuList = Annotated[
    str,
    _parsed(
        lambda text: names.cpulist(names.cpus(text)),
        'numbers and ranges as text, such as "0-3,56-59"',
    ),
]
NodeRange = Annotated[
    str,
    _range_of(
        # One label of a host name (RFC 1123, hostname(7)).
        r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?",
        "a host name or a range of them, such as head1 or worker[01-16]: "
        "letters, digits and '-' (not first or last), at most 63 characters",
    ),
]
Devices = Annotated[str, _range_of(r"(/dev/.*)?", "device files, such as /dev/nvidia[0-7]")]
DeviceNames = Annotated[
    str,
    _range_of(
        r"[A-Za-z0-9_.-]{0,63}",
        "device names or a range of them, such as fabric0 or mlx5_[0-7]",
    ),
]
Memlock = Annotated[Literal["unlimited"] | int, BeforeValidator(_memlock)]
NumaNode = Annotated[int, Field(ge=0)]
TimeZone = Annotated[
    str, _matching(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*", "a name such as Europe/Berlin or Etc/UTC")
]
Locale = Annotated[
    str, _matching(r"[A-Za-z_]+\.UTF-8(@[a-z]+)?", "a UTF-8 locale such as C.UTF-8 or en_US.UTF-8")
]
PciAddress = Annotated[
    str,
    _matching(
        r"([0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", "a PCI address such as 0000:3b:00.0"
    ),
]
SysctlValue = Annotated[
    str,
    _matching(r"\S+([ \t]\S+)*", "a value on one line, with a single space or tab between words"),
]
PackageVersion = Annotated[
    str, _matching(r"[A-Za-z0-9.+:~^_-]+", "an exact package version (deb-version(7))")
]
Upstream = Annotated[
    str,
    _matching(
        r"\d+(\.[A-Za-z0-9]+)+", "an upstream version (no epoch, no revision), such as 550.163.01"
    ),
]
ModuleOption = Annotated[
    str,
    _matching(r"NVreg_[A-Za-z0-9]+", "a parameter of the nvidia kernel module, such as NVreg_..."),
]
CudaRelease = Annotated[str, _matching(r"\d+\.\d+", "a release such as 12.4")]
MigProfile = Annotated[
    str,
    _matching(
        r"\d+g\.\d+gb(\+me(\.all)?|\+gfx|-me)?", "a profile name from `nvidia-smi mig -lgip`"
    ),
]
GpuName = Annotated[
    str,
    _matching(
        # Slurm's type is made of it, in lower case and with underscores.
        r"[A-Za-z0-9][A-Za-z0-9 ._+-]{0,94}",
        "a model of the catalogue such as h100, or the name that nvidia-smi prints, such as "
        '"NVIDIA H100 PCIe": letters, digits, spaces and ._+-',
    ),
]
NvLinks = Annotated[
    str, _matching(r"(\d+ x \d+(\.\d+)? GB/s)?", 'links, such as "18 x 26.562 GB/s"')
]
PublicKey = Annotated[
    str,
    _matching(
        r"(?s)\s*-----BEGIN PGP PUBLIC KEY BLOCK-----\n.*\n-----END PGP PUBLIC KEY BLOCK-----\s*",
        "an ASCII-armored public key (gpg --armor --export), such as "
        'Path("keys/vendor.asc").read_text()',
    ),
]
Uri = Annotated[str, _matching(r"(https?://|file:/)\S+", "a repository URL, such as https://...")]
Word = Annotated[str, _matching(r"[A-Za-z0-9./_~+-]+", "one word of letters, digits and ./_~+-")]
HostName = Annotated[str, _matching(r"[A-Za-z0-9.:-]+", "a host name or an address")]
SiteRuleId = Annotated[
    str, _matching(r"site\.[a-z0-9_]+", "'site.' followed by a name, such as site.scratch_mounted")
]
FirmwareVersion = Annotated[
    str, _matching(r"[A-Za-z0-9][A-Za-z0-9._-]*", "a version such as 28.43.2026")
]
SlurmTime = Annotated[
    str,
    _matching(
        r"UNLIMITED|INFINITE|\d+(-\d+)?(:\d+){0,2}",
        "UNLIMITED, minutes, hours:minutes:seconds or days-hours:minutes:seconds",
    ),
]
PrometheusDuration = Annotated[
    str, _matching(r"(\d+(ms|[smhdwy]))+", "a Prometheus duration such as 30d or 12h")
]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=63)]
Count = Annotated[int, Field(ge=1)]
