"""Field types: the values that each of them accepts, and the error message for other values."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from netaddr import AddrFormatError, IPAddress, IPNetwork
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StrictBool,
    StrictInt,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)
from pydantic_core import PydanticCustomError

from lockstep.catalog import time_zones
from lockstep.catalog.nvidia import cufile
from lockstep.nearest import did_you_mean
from lockstep.spec import names, x509

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema


class Model(BaseModel):
    """Base class of all parts of the spec: immutable, and unknown fields are errors."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, arbitrary_types_allowed=True, ser_json_timedelta="float"
    )

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_as_number(cls, value: object, info: ValidationInfo) -> object:
        """Refuse True and False in numbers, which Python takes for 1 and 0."""
        if info.field_name in _numeric(cls) and any(type(one) is bool for one in _within(value)):
            raise PydanticCustomError("truth_value", "a number, not True or False")
        return value


@cache
def _numeric(model: type[BaseModel]) -> frozenset[str]:
    """Return the fields of a model that are numbers, or tuples or dictionaries of them."""
    return frozenset(
        name
        for name, field in model.model_fields.items()
        if {int, float} & (kinds := set(_types(field.annotation))) and bool not in kinds
    )


def _types(annotation: object) -> Iterator[object]:
    yield annotation
    for inner in get_args(annotation):
        yield from _types(inner)


def _within(value: object) -> Iterable[object]:
    """Return a value and, if it is a list or a dictionary, its items and keys."""
    if isinstance(value, Mapping):
        return (*value, *value.values())
    return value if isinstance(value, list | tuple) else (value,)


class _Described:
    """A validator that puts the allowed values into the JSON schema, for docs/description.md."""

    allowed: str

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(core), "allowed": self.allowed}


@dataclass(frozen=True)
class _Before(_Described, BeforeValidator):
    allowed: str = ""


@dataclass(frozen=True)
class _After(_Described, AfterValidator):
    allowed: str = ""


def _parsed(parse: Callable[[str], object], allowed: str) -> BeforeValidator:
    """Return a validator that parses a value; its error names the allowed values."""

    def check(value: object) -> object:
        try:
            return parse(_text(value))
        except names.TooManyError:
            raise
        except (AddrFormatError, ValueError) as error:
            raise ValueError(allowed) from error

    return _Before(check, allowed=allowed)


def _text(value: object) -> str:
    """Return the text of a value that is text or has one; anything else would become "None"."""
    if not isinstance(value, str | os.PathLike | IPAddress | IPNetwork):
        raise ValueError("text, in quotes")
    return str(value)


def _network(value: object) -> IPNetwork:
    try:
        text = _text(value)
        # netaddr would accept an address without a prefix length as a network of one address.
        network = IPNetwork(text if "/" in text else "")
    except (AddrFormatError, ValueError) as error:
        raise ValueError("a network with its prefix length, such as fd12:3456:789a::/64") from error
    if network.ip != network.network:
        raise ValueError(f"{network.cidr}: the host bits must be zero")
    return network


def _short(value: object) -> object:
    if isinstance(value, str) and re.search(r"[A-Za-z]\.|\.[A-Za-z]", value):
        raise ValueError("a host name without its domain, which the field `domain` has")
    return value


def _range_of(pattern: str, allowed: str) -> BeforeValidator:
    """Return a validator for a name range in which every name must match a pattern."""

    def check(text: str) -> str:
        if not all(re.fullmatch(pattern, name, re.ASCII) for name in names.expand(text) or ("",)):
            raise ValueError(allowed)
        return text.replace(" ", "")  # ClusterShell accepts spaces after a comma

    return _parsed(check, allowed)


def _memlock(value: object) -> object:
    if value == "unlimited" or (type(value) is int and value > 0):
        return value
    raise ValueError('"unlimited", or a whole number of KiB (1 or more)')


def _certificate(value: str) -> str:
    try:
        x509.read(value)
    except x509.NotACertificate as error:
        raise ValueError(
            "one certificate in PEM format, such as "
            f'Path("keys/modules.pem").read_text(); this text is: {error}'
        ) from error
    return value


def _selinux(value: object) -> object:
    if value in ("enforcing", "permissive", None):
        return value
    why = (
        ": Lockstep never disables SELinux, because files that are written without it have no "
        "labels; permissive denies nothing, and logs what enforcing would deny"
    )
    raise ValueError(f'"enforcing" or "permissive"{why if value == "disabled" else ""}')


def matching(pattern: str, allowed: str) -> AfterValidator:
    """Return a validator that rejects text that does not match a pattern.

    The text is later written into files and shell commands.
    """

    def check(value: str) -> str:
        if re.fullmatch(pattern, value, re.ASCII) is None:
            raise ValueError(allowed)
        return value

    return _After(check, allowed=allowed)


def _time_zone(value: str) -> str:
    if value in time_zones.FORMER:
        raise ValueError(
            f"{time_zones.FORMER[value]}, the present name of this zone: Debian 13 and Ubuntu "
            "24.04 have the former one only in the package tzdata-legacy"
        )
    if value not in time_zones.NAMES:
        near = did_you_mean(value, time_zones.NAMES, "such as Europe/Berlin or UTC")
        raise ValueError(f"a name of the time zone database; {near}")
    return value


def _cufile_name(value: str) -> str:
    if value not in cufile.SETTINGS:
        near = did_you_mean(value, cufile.SETTINGS, "such as properties.allow_compat_mode")
        raise ValueError(f"a setting of cuFile; {near}")
    return value


_DURATION = re.compile(
    "".join(f"(?:([0-9]{{1,9}}){unit})?" for unit in ("y", "w", "d", "h", "m", "s", "ms"))
)
_MILLISECONDS = (31_536_000_000, 604_800_000, 86_400_000, 3_600_000, 60_000, 1000, 1)
_LONGEST_MS = (1 << 63) // 1_000_000
"""Prometheus keeps a duration in nanoseconds, in 64 bits: 292 years."""


def _duration(value: str) -> str:
    found = _DURATION.fullmatch(value)
    parts = found.groups(default="0") if found else ()
    total = sum(int(part) * unit for part, unit in zip(parts, _MILLISECONDS, strict=False))
    if not 0 < total < _LONGEST_MS:
        raise ValueError(
            "a Prometheus duration such as 30d or 1d12h: longer than 0, the largest unit first"
        )
    return value


Folder = Annotated[
    str,
    matching(r"/.*", "an absolute path, beginning with / or ~"),
    BeforeValidator(lambda value: os.path.expanduser(_text(value))),
]
Address = Annotated[
    IPAddress,
    _parsed(IPAddress, "an IPv6 or IPv4 address without a prefix, such as fd12::11"),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "examples": ["fd12:3456:789a::11", "192.0.2.11"]}),
]
Network_ = Annotated[
    IPNetwork,
    BeforeValidator(_network),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "examples": ["fd12:3456:789a::/64", "192.0.2.0/24"]}),
]
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
    BeforeValidator(_short),
]
DomainName = Annotated[
    str,
    matching(
        # RFC 1123, 2.1; the whole name has at most 253 characters, and a host name up to 63.
        r"(?=.{1,189}$)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
        r"(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*",
        "a DNS domain without a dot at its end, such as gpu.example.net",
    ),
]
Devices = Annotated[
    str,
    _range_of(
        r"(/dev(/[A-Za-z0-9_:+-][A-Za-z0-9._:+-]*)+)?",
        "device files, such as /dev/nvidia[0-7]",
    ),
]
DeviceNames = Annotated[
    str,
    _range_of(
        r"[A-Za-z0-9_.-]{0,63}",
        "device names or a range of them, such as fabric0 or mlx5_[0-7]",
    ),
]
Memlock = Annotated[Literal["unlimited"] | int, BeforeValidator(_memlock)]
NumaNode = Annotated[int, Field(ge=0, le=1023)]
"""Linux has at most 2**10 NUMA nodes (arch/x86/Kconfig and arch/arm64/Kconfig: NODES_SHIFT)."""
TimeZone = Annotated[str, AfterValidator(_time_zone)]
SelinuxMode = Annotated[Literal["enforcing", "permissive"], BeforeValidator(_selinux)]
Locale = Annotated[
    str, matching(r"[A-Za-z_]+\.UTF-8(@[a-z]+)?", "a UTF-8 locale such as C.UTF-8 or en_US.UTF-8")
]
PciAddress = Annotated[
    str,
    matching(
        r"([0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", "a PCI address such as 0000:3b:00.0"
    ),
]
SysctlValue = Annotated[
    str,
    matching(
        r"[!-~]+([ \t][!-~]+)*", "a value on one line, with a single space or tab between words"
    ),
]
PackageVersion = Annotated[
    str, matching(r"[A-Za-z0-9.+:~^_-]+", "an exact package version (deb-version(7))")
]
ChartRepository = Annotated[
    str,
    matching(
        r"(https?|oci)://[A-Za-z0-9._~:/@%\[\]-]*[A-Za-z0-9\]]",
        "a repository of Helm charts, without / at its end, such as oci://registry.example.net/a",
    ),
]
ChartVersion = Annotated[
    str,
    matching(r"v?\d+\.\d+\.\d+([-+][A-Za-z0-9.+-]+)?", "one version, such as v26.7.0: no range"),
]
Upstream = Annotated[
    str,
    matching(
        r"\d+(\.[A-Za-z0-9]+)+", "an upstream version (no epoch, no revision), such as 550.163.01"
    ),
]
ModuleOption = Annotated[
    str,
    matching(r"NVreg_[A-Za-z0-9]+", "a parameter of the nvidia kernel module, such as NVreg_..."),
]
CudaRelease = Annotated[str, matching(r"\d+\.\d+", "a release such as 12.4")]
CufileName = Annotated[str, AfterValidator(_cufile_name)]
CufileText = Annotated[str, matching(r"[A-Za-z0-9._:/@%+*-]+", "a text without blanks and quotes")]
CufileItem = Annotated[StrictInt, Field(ge=0, le=(1 << 53) - 1)] | CufileText
CufileValue = StrictBool | CufileItem
MigProfile = Annotated[
    str,
    matching(r"\d+g\.\d+gb(\+me(\.all)?|\+gfx|-me)?", "a profile name from `nvidia-smi mig -lgip`"),
]
GpuName = Annotated[
    str,
    matching(
        # Slurm's type is made of it, in lower case and with underscores.
        r"[A-Za-z0-9][A-Za-z0-9 ._+-]{0,94}",
        "a model of the catalogue such as h100, or the name that nvidia-smi prints, such as "
        '"NVIDIA H100 PCIe": letters, digits, spaces and ._+-',
    ),
]
NvLinks = Annotated[
    str, matching(r"(\d+ x \d+(\.\d+)? GB/s)?", 'links, such as "18 x 26.562 GB/s"')
]
PublicKey = Annotated[
    str,
    matching(
        # RFC 9580, 6.2: headers such as "Comment: ...", an empty line, lines of base64.
        r"(\s*-----BEGIN PGP PUBLIC KEY BLOCK-----\n"
        r"([A-Za-z]+: [A-Za-z0-9 .,:;()<>@/_+-]*\n)*([A-Za-z0-9+/=]*[ \t]*\n)+"
        r"-----END PGP PUBLIC KEY BLOCK-----\s*)+",
        "an ASCII-armored public key (gpg --armor --export), such as "
        'Path("keys/vendor.asc").read_text()',
    ),
]
Certificate = Annotated[str, AfterValidator(_certificate)]
Uri = Annotated[
    str,
    matching(
        # The characters of RFC 3986 that are no syntax of sources.list(5), yum.conf(5) or a shell,
        # and the two variables of dnf (dnf.conf(5), REPOSITORY OPTIONS).
        r"(https?://|file:/)([A-Za-z0-9._~:/@!,+%\[\]-]|\$(releasever|basearch)(?![A-Za-z0-9_]))+",
        "a repository URL, such as https://packages.example.net/debian, with other characters as "
        "%20",
    ),
]
Word = Annotated[str, matching(r"[A-Za-z0-9./_~+-]+", "one word of letters, digits and ./_~+-")]
HostName = Annotated[str, matching(r"[A-Za-z0-9:][A-Za-z0-9._:-]*", "a host name or an address")]
UserName = Annotated[
    str,
    matching(
        # useradd(8), and the longer forms of directory services: user@domain, DOMAIN\\user.
        r"[A-Za-z_][A-Za-z0-9_.@\\-]{0,254}\$?",
        "the name of an account: letters, digits and ._-@",
    ),
]
SiteRuleId = Annotated[
    str, matching(r"site\.[a-z0-9_]+", "'site.' followed by a name, such as site.scratch_mounted")
]
FirmwareVersion = Annotated[
    str, matching(r"[A-Za-z0-9][A-Za-z0-9._-]*", "a version such as 28.43.2026")
]
SlurmTime = Annotated[
    str,
    matching(
        r"UNLIMITED|INFINITE|\d{1,9}(-\d{1,9})?(:\d{1,9}){0,2}",
        "UNLIMITED, minutes, hours:minutes:seconds or days-hours:minutes:seconds",
    ),
]
PrometheusDuration = Annotated[str, AfterValidator(_duration)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=63)]
Count = Annotated[int, Field(ge=1, le=(1 << 31) - 1)]
