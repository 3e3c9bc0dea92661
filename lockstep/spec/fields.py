"""Types of single fields: the values that each accepts, and the error text for other values."""

from __future__ import annotations

import os
import re
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
    """Base class of all parts of the spec: frozen; unknown fields are errors."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, arbitrary_types_allowed=True, ser_json_timedelta="float"
    )


def _address(value: object) -> IPAddress:
    if isinstance(value, IPAddress):
        return value
    try:
        return IPAddress(str(value))
    except (AddrFormatError, ValueError) as error:
        raise ValueError("an IPv6 or IPv4 address without a prefix, such as fd12::11") from error


def _network(value: object) -> IPNetwork:
    if isinstance(value, IPNetwork):
        return value
    allowed = "a network with its prefix length, such as fd12:3456:789a::/64"
    if "/" not in str(value):  # netaddr would accept it as a network of one address
        raise ValueError(allowed)
    try:
        network = IPNetwork(str(value))
    except (AddrFormatError, ValueError) as error:
        raise ValueError(allowed) from error
    if network.ip != network.network:
        raise ValueError(f"{network.cidr}, without bits set after the prefix")
    return network


def _cpulist(value: object) -> str:
    try:
        return names.cpulist(names.cpus(str(value)))
    except ValueError as error:
        raise ValueError('numbers and ranges as text, such as "0-3,56-59"') from error


HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
"""RFC 1123: what hostname(7) accepts as one label."""


def _noderange(value: object) -> str:
    try:
        expanded = names.expand(str(value))
    except ValueError:
        expanded = ()
    if not expanded or not all(HOST_NAME.fullmatch(name) for name in expanded):
        raise ValueError(
            "a host name or a range of them, such as head1 or worker[01-16]: "
            "letters, digits and '-' inside, at most 63 characters"
        )
    return str(value)


def _devices(value: object) -> str:
    text = str(value)
    try:
        listed = names.expand(text)
    except ValueError:
        listed = ("",)
    if not all(name.startswith("/dev/") for name in listed):
        raise ValueError("device files, such as /dev/nvidia[0-7]")
    return text


def _device_names(value: object) -> str:
    text = str(value)
    try:
        listed = names.expand(text) if text else ()
    except ValueError:
        listed = ("/",)
    if not all(re.fullmatch(r"[A-Za-z0-9_.-]{1,63}", name) for name in listed):
        raise ValueError("names of devices or a range of them, such as mlx5_[0-7] or fabric0")
    return text


def _memlock(value: object) -> object:
    if value == "unlimited" or (
        isinstance(value, int) and not isinstance(value, bool) and value > 0
    ):
        return value
    raise ValueError('"unlimited" or a number of KiB of at least 1')


def _folder(value: object) -> str:
    folder = os.path.expanduser(str(value))
    if not os.path.isabs(folder):
        raise ValueError("an absolute path, beginning with / or ~")
    return folder


Folder = Annotated[str, BeforeValidator(_folder)]
Address = Annotated[IPAddress, BeforeValidator(_address), PlainSerializer(str)]
Network_ = Annotated[IPNetwork, BeforeValidator(_network), PlainSerializer(str)]
CpuList = Annotated[str, BeforeValidator(_cpulist)]
NodeRange = Annotated[str, BeforeValidator(_noderange)]
Devices = Annotated[str, BeforeValidator(_devices)]
DeviceNames = Annotated[str, BeforeValidator(_device_names)]
Memlock = Annotated[Literal["unlimited"] | int, BeforeValidator(_memlock)]
NumaNode = Annotated[int, Field(ge=0)]


def _matching(pattern: str, allowed: str) -> AfterValidator:
    """Return a validator for text that is later written to files and shell commands."""

    def check(value: str) -> str:
        if re.fullmatch(pattern, value) is None:
            raise ValueError(allowed)
        return value

    return AfterValidator(check)


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
    str, _matching(r"\S+([ \t]\S+)*", "a value on one line, words separated by single spaces")
]
PackageVersion = Annotated[
    str, _matching(r"[A-Za-z0-9.+:~-]+", "an exact package version (deb-version(7))")
]
Upstream = Annotated[
    str,
    _matching(r"\d+(\.[A-Za-z0-9]+)+", "a version without epoch and revision, such as 550.163.01"),
]
ModuleOption = Annotated[
    str, _matching(r"NVreg_[A-Za-z0-9]+", "a parameter of the kernel module such as NVreg_...")
]
CudaRelease = Annotated[str, _matching(r"\d+\.\d+", "a release such as 12.4")]
MigProfile = Annotated[
    str, _matching(r"\d+g\.\d+gb(\+me|\+gfx|-me)?", "a profile name from `nvidia-smi mig -lgip`")
]
PublicKey = Annotated[
    str,
    _matching(
        r"(?s)\s*-----BEGIN PGP PUBLIC KEY BLOCK-----\n.*\n-----END PGP PUBLIC KEY BLOCK-----\s*",
        "an ASCII-armored public key (gpg --armor --export), such as "
        'Path("keys/vendor.asc").read_text()',
    ),
]
Uri = Annotated[
    str, _matching(r"(https?://|file:/)\S+", "the address of a repository, such as https://...")
]
Word = Annotated[str, _matching(r"[A-Za-z0-9./_~+-]+", "one word of letters, digits and ./_~+-")]
HostName = Annotated[str, _matching(r"[A-Za-z0-9.:-]+", "a host name or an address")]
SiteRuleId = Annotated[
    str, _matching(r"site\.[a-z0-9_]+", "site. and a name, such as site.scratch_mounted")
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
