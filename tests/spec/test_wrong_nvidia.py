"""Every version set that does not fit: the message names the pair, the place and a solution."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lockstep import spec
from lockstep.catalog.os import rocky_9
from lockstep.inventory import load
from lockstep.roles import declared
from lockstep.spec.hardware import OwnGpu
from lockstep.spec.software import Nvidia
from tests.spec.example import description as plain
from tests.spec.example import line_of
from tests.spec.nvidia_example import SOURCE, changed, description
from tests.spec.test_wrong_specs import message, refused

Change = tuple[str, str]


@dataclass(frozen=True)
class Wrong:
    """Changes of the example, and the whole of what is said about them."""

    id: str
    changes: tuple[Change, ...]
    at: str
    """Text whose line the message names."""
    field: str
    found: str
    allowed: str


def without(line: str) -> Change:
    """Take a line of the version set away."""
    return f"                {line},\n", ""


def model(name: str) -> Change:
    return '"model": "h200"', f'"model": "{name}"'


def driver(version: str) -> tuple[Change, ...]:
    """Another driver, and what must be of the driver's version."""
    return (
        ('"driver": "580.95.05"', f'"driver": "{version}"'),
        ('"fabric_manager": "580.95.05"', f'"fabric_manager": "{version}"'),
        ('"nscq": "580.95.05"', f'"nscq": "{version}"'),
    )


def gpu(field: str) -> tuple[Change, ...]:
    return (('"nvswitch": True,', f'"nvswitch": True,\n                    {field},'),)


NO_SWITCHES = ('"nvswitch": True', '"nvswitch": False')
NO_NVLINK = (without('"fabric_manager": "580.95.05"'), without('"nscq": "580.95.05"'), NO_SWITCHES)
NO_CUDA = without('"cuda": ["12.8", "13.0"]')
NO_DCGM = (without('"dcgm": "4.4.1"'), without('"dcgm_exporter": "4.5.2"'))
REPOSITORY = (
    '                {\n                    "name": "nvidia",\n'
    '                    "uri": "https://mirror.example.net/cuda/debian13/x86_64",\n'
    '                    "suite": "/",\n                    "key": _KEY,\n                },\n'
)
GPU_BLOCK = SOURCE[
    SOURCE.index('                "gpu": {') : SOURCE.index('                "hugepages"')
]
NEAREST = "; the nearest branch that NVIDIA supports is 580"
CUDA = (
    "11.4, 11.5, 11.6, 11.8, 12.0, 12.1, 12.2, 12.3, 12.4, 12.5, 12.6, 12.8, 12.9, "
    "13.0, 13.1, 13.2, 13.3"
)
H200_PROFILES = "1g.18gb, 1g.18gb+me, 1g.35gb, 2g.35gb, 3g.71gb, 4g.71gb, 7g.141gb"
GPU = "hardware.hgx.gpu"
SET = "software.nvidia"
STACK = '"nvidia": {\n'
GPU_NAME = (
    "a model of the catalogue such as h100, or the name that nvidia-smi prints, such as "
    '"NVIDIA H100 PCIe": letters, digits, spaces and ._+-'
)
UPSTREAM = "an upstream version (no epoch, no revision), such as 550.163.01"
KEY_RULE = (
    "an ASCII-armored public key (gpg --armor --export), such as "
    'Path("keys/vendor.asc").read_text()'
)

CASES = [
    # -- settings of the GPUs
    Wrong(
        "more power than the GPU takes",
        gpu('"power_limit_w": 750'),
        '"power_limit_w"',
        f"{GPU}.power_limit_w",
        "750 W",
        "200 to 700 W (NVIDIA H200)",
    ),
    Wrong(
        "less power than the GPU takes",
        gpu('"power_limit_w": 199.5'),
        '"power_limit_w"',
        f"{GPU}.power_limit_w",
        "199.5 W",
        "200 to 700 W (NVIDIA H200)",
    ),
    Wrong(
        "no power at all",
        gpu('"power_limit_w": 0'),
        '"power_limit_w"',
        f"{GPU}.power_limit_w",
        "0",
        "more than 0",
    ),
    Wrong(
        "the higher clock first",
        gpu('"clocks_mhz": [1980, 1500]'),
        '"clocks_mhz"',
        f"{GPU}.clocks_mhz",
        "1980, 1500",
        "the lower clock first, at most 1980 MHz (NVIDIA H200)",
    ),
    Wrong(
        "a clock that the GPU does not reach",
        gpu('"clocks_mhz": [1500, 2100]'),
        '"clocks_mhz"',
        f"{GPU}.clocks_mhz",
        "1500, 2100",
        "the lower clock first, at most 1980 MHz (NVIDIA H200)",
    ),
    Wrong(
        "an unknown compute mode",
        gpu('"compute_mode": "exclusive"'),
        '"compute_mode"',
        f"{GPU}.compute_mode",
        "'exclusive'",
        "'default', 'exclusive_process' or 'prohibited'",
    ),
    Wrong(
        "a MIG profile of another GPU",
        gpu('"mig": ["3g.71gb", "3g.40gb"]'),
        '"mig"',
        f"{GPU}.mig[1]",
        "3g.40gb",
        f"one of {H200_PROFILES}",
    ),
    Wrong(
        "a compute instance in place of a MIG profile",
        gpu('"mig": ["1c.3g.71gb"]'),
        '"mig"',
        f"{GPU}.mig[0]",
        "'1c.3g.71gb'",
        "a profile name from `nvidia-smi mig -lgip`",
    ),
    Wrong(
        "more MIG slices than there are",
        gpu('"mig": ["4g.71gb", "2g.35gb", "1g.18gb", "1g.18gb"]'),
        '"mig"',
        f"{GPU}.mig",
        "4g.71gb, 2g.35gb, 1g.18gb, 1g.18gb: 8 slices",
        "at most 7 slices (the number before the g)",
    ),
    Wrong(
        "slices enough, but not the memory",
        gpu('"mig": ["3g.71gb", "3g.71gb", "1g.18gb"]'),
        '"mig"',
        f"{GPU}.mig",
        "3g.71gb, 3g.71gb, 1g.18gb: 9 eighths of the memory",
        "at most 141 GB, 8 eighths",
    ),
    Wrong(
        "two instances with media extensions",
        gpu('"mig": ["1g.18gb+me", "1g.18gb+me"]'),
        '"mig"',
        f"{GPU}.mig",
        "1g.18gb+me, 1g.18gb+me: 2 with +me",
        "at most one instance with media extensions (+me)",
    ),
    Wrong(
        "MIG on a GPU that has none",
        (model("l40s"), *NO_NVLINK[:2], ('"nvswitch": True', '"mig": ["1g.18gb", "1g.18gb"]')),
        '"mig"',
        f"{GPU}.mig",
        "1g.18gb, 1g.18gb",
        "leave it out: NVIDIA L40S does not support MIG",
    ),
    # -- models and vendors
    Wrong(
        "no model",
        (('                    "model": "h200",\n', ""),),
        '"gpu"',
        f"{GPU}.model",
        "nothing",
        "a model of the catalogue, or the name that nvidia-smi prints",
    ),
    Wrong(
        "a model as a number",
        (('"model": "h200"', '"model": 200'),),
        '"model"',
        f"{GPU}.model",
        "200",
        "text, in quotes",
    ),
    Wrong(
        "a model that would add a line to slurm.conf",
        (('"model": "h200"', '"model": "NVIDIA X\\nNodeName=evil"'),),
        '"model"',
        f"{GPU}.model",
        r"'NVIDIA X\nNodeName=evil'",
        "printable characters on one line",
    ),
    Wrong(
        "an own model without a name",
        (('"model": "h200"', '"model": {"memory_mib": 8192}'),),
        '"model"',
        f"{GPU}.model.name",
        "nothing",
        "a value: the field is required",
    ),
    Wrong(
        "an unknown value of an own model",
        (('"model": "h200"', '"model": {"name": "NVIDIA X", "memory": 8192}'),),
        '"memory"',
        f"{GPU}.model.memory",
        "'memory'",
        "one of " + ", ".join(OwnGpu.model_fields),
    ),
    Wrong(
        "an unknown architecture of an own model",
        (('"model": "h200"', '"model": {"name": "NVIDIA X", "architecture": "pascall"}'),),
        '"architecture"',
        f"{GPU}.model.architecture",
        "pascall",
        "one of volta, turing, ampere, ada, hopper, blackwell",
    ),
    Wrong(
        "an own model whose higher power limit comes first",
        (('"model": "h200"', '"model": {"name": "NVIDIA X", "power_limits_w": [700, 200]}'),),
        '"power_limits_w"',
        f"{GPU}.model.power_limits_w",
        "700, 200",
        "the lower limit first, in watts",
    ),
    Wrong(
        "an own model whose default is outside its limits",
        (
            (
                '"model": "h200"',
                '"model": {"name": "NVIDIA X", "default_power_limit_w": 90,\n'
                '                              "power_limits_w": [100, 200]}',
            ),
        ),
        '"default_power_limit_w"',
        f"{GPU}.model.default_power_limit_w",
        "90.0 W",
        "100 to 200 W, as in power_limits_w",
    ),
    Wrong(
        "more power than an own model takes",
        (
            ('"model": "h200"', '"model": {"name": "NVIDIA X", "power_limits_w": [100, 200]}'),
            *gpu('"power_limit_w": 250'),
        ),
        '"power_limit_w"',
        f"{GPU}.power_limit_w",
        "250 W",
        "100 to 200 W (NVIDIA X)",
    ),
    Wrong(
        "the higher clock of an own model first",
        (('"model": "h200"', '"model": "NVIDIA X"'), *gpu('"clocks_mhz": [1980, 1500]')),
        '"clocks_mhz"',
        f"{GPU}.clocks_mhz",
        "1980, 1500",
        "the lower clock first",
    ),
    Wrong(
        "an unknown vendor",
        gpu('"vendor": "ati"'),
        '"vendor"',
        f"{GPU}.vendor",
        "'ati'",
        "'nvidia', 'amd' or 'intel'",
    ),
    # -- the driver and what must be of its version
    Wrong(
        "a driver version with a revision",
        (('"driver": "580.95.05"', '"driver": "580.95.05-1"'),),
        '"driver"',
        f"{SET}.driver",
        "'580.95.05-1'",
        UPSTREAM,
    ),
    Wrong(
        "a branch in place of a driver version",
        (('"driver": "580.95.05"', '"driver": "580"'),),
        '"driver"',
        f"{SET}.driver",
        "'580'",
        UPSTREAM,
    ),
    Wrong(
        "no driver",
        (without('"driver": "580.95.05"'),),
        STACK,
        f"{SET}.driver",
        "nothing",
        "a value: the field is required",
    ),
    Wrong(
        "an unknown part",
        (('"nccl": "2.27.7"', '"ncll": "2.27.7"'),),
        '"ncll"',
        f"{SET}.ncll",
        "'ncll'",
        "one of " + ", ".join(Nvidia.model_fields),
    ),
    Wrong(
        "fabric manager of another version",
        (('"fabric_manager": "580.95.05"', '"fabric_manager": "580.82.07"'),),
        '"fabric_manager"',
        f"{SET}.fabric_manager",
        "580.82.07",
        "580.95.05, the driver's version: any other version refuses to start",
    ),
    Wrong(
        "NSCQ of another version",
        (('"nscq": "580.95.05"', '"nscq": "575.57.08"'),),
        '"nscq"',
        f"{SET}.nscq",
        "575.57.08",
        "580.95.05, the driver's version: any other version cannot be loaded",
    ),
    Wrong(
        "IMEX of another version",
        (
            ('"nscq": "580.95.05"', '"nscq": "580.95.05",\n                "imex": "580.82.07"'),
            *gpu('"multi_node_nvlink": True'),
        ),
        '"imex"',
        f"{SET}.imex",
        "580.82.07",
        "580.95.05, the driver's version: any other version refuses to start",
    ),
    Wrong(
        "NVSwitches without a fabric manager",
        (without('"fabric_manager": "580.95.05"'),),
        STACK,
        f"{SET}.fabric_manager",
        "not declared",
        "580.95.05: hardware class hgx sets gpu.nvswitch",
    ),
    Wrong(
        "a fabric manager without NVSwitches",
        (NO_SWITCHES, without('"nscq": "580.95.05"')),
        '"fabric_manager"',
        f"{SET}.fabric_manager",
        "580.95.05",
        "leave it out: no hardware class sets gpu.nvswitch",
    ),
    Wrong(
        "NSCQ without NVSwitches",
        (NO_SWITCHES, without('"fabric_manager": "580.95.05"')),
        '"nscq"',
        f"{SET}.nscq",
        "580.95.05",
        "leave it out: no hardware class sets gpu.nvswitch",
    ),
    Wrong(
        "NVLink between nodes without IMEX",
        gpu('"multi_node_nvlink": True'),
        STACK,
        f"{SET}.imex",
        "not declared",
        "580.95.05: hardware class hgx sets gpu.multi_node_nvlink",
    ),
    Wrong(
        "IMEX without NVLink between nodes",
        (('"nscq": "580.95.05"', '"nscq": "580.95.05",\n                "imex": "580.95.05"'),),
        '"imex"',
        f"{SET}.imex",
        "580.95.05",
        "leave it out: no hardware class sets gpu.multi_node_nvlink",
    ),
    # -- the driver and the architecture
    Wrong(
        "a driver older than the architecture",
        (model("l40s"), *NO_NVLINK, NO_CUDA, ('"driver": "580.95.05"', '"driver": "520.61.05"')),
        '"driver"',
        f"{SET}.driver",
        "520.61.05",
        "525 or later for hardware class hgx (ada)" + NEAREST,
    ),
    Wrong(
        "a driver younger than the architecture",
        (model("v100"), *NO_NVLINK, NO_CUDA, ('"driver": "580.95.05"', '"driver": "590.48.01"')),
        '"driver"',
        f"{SET}.driver",
        "590.48.01",
        "580 or earlier for hardware class hgx (volta)" + NEAREST,
    ),
    Wrong(
        "open modules for Volta",
        (
            model("v100"),
            *NO_NVLINK,
            ('"driver": "580.95.05"', '"driver": "580.95.05", "modules": "open"'),
        ),
        '"modules"',
        f"{SET}.modules",
        "open",
        "proprietary for hardware class hgx (volta)",
    ),
    Wrong(
        "proprietary modules for Blackwell",
        (
            model("b200"),
            ('"driver": "580.95.05"', '"driver": "580.95.05", "modules": "proprietary"'),
        ),
        '"modules"',
        f"{SET}.modules",
        "proprietary",
        "open for hardware class hgx (blackwell)",
    ),
    Wrong(
        "Blackwell with a driver from before it",
        (model("b200"), *driver("565.57.01"), ('["12.8", "13.0"]', '["12.8"]')),
        '"driver"',
        f"{SET}.driver",
        "565.57.01",
        "570 or later for hardware class hgx (blackwell)" + NEAREST,
    ),
    Wrong(
        "a driver of the branch, but older than the model needs",
        (model("b200"), *driver("570.86.15"), ('["12.8", "13.0"]', '["12.8"]')),
        '"driver"',
        f"{SET}.driver",
        "570.86.15",
        "570.133.20 or later for hardware class hgx (NVIDIA B200)",
    ),
    Wrong(
        "proprietary modules for Grace Hopper",
        (
            ('"model": "h200"', '"model": "gh200"'),
            ('"iommu=pt"', '"iommu.passthrough=1"'),
            (
                '            "hgx": {',
                '            "hgx": {\n                "architecture": "arm64",',
            ),
            ('"driver": "580.95.05"', '"driver": "580.95.05", "modules": "proprietary"'),
        ),
        '"modules"',
        f"{SET}.modules",
        "proprietary",
        "open for hardware class hgx (NVIDIA GH200 480GB)",
    ),
    Wrong(
        "an own model, whose declared architecture is younger than the driver",
        (
            ('"model": "h200"', '"model": {"name": "NVIDIA X", "architecture": "blackwell"}'),
            *driver("550.163.01"),
            ('["12.8", "13.0"]', '["12.8"]'),
        ),
        '"driver"',
        f"{SET}.driver",
        "550.163.01",
        "570 or later for hardware class hgx (blackwell)" + NEAREST,
    ),
    Wrong(
        "open modules from before there were any",
        (model("a100"), *driver("510.108.03"), NO_CUDA),
        '"driver"',
        f"{SET}.driver",
        "510.108.03 with open kernel modules for hardware class hgx (ampere)",
        "515 or later, or modules: proprietary",
    ),
    # -- CUDA
    Wrong(
        "CUDA too new for the driver",
        driver("575.57.08"),
        '"cuda":',
        f"{SET}.cuda[1]",
        "13.0 with driver 575.57.08",
        "driver 580.65.06 or later for CUDA 13.x, or CUDA 12.9 with this driver",
    ),
    Wrong(
        "an unknown CUDA release",
        (('["12.8", "13.0"]', '["12.8", "12.7"]'),),
        '"cuda":',
        f"{SET}.cuda[1]",
        "12.7",
        f"one of {CUDA}",
    ),
    Wrong(
        "a CUDA version in place of a release",
        (('["12.8", "13.0"]', '["12.8.1"]'),),
        '"cuda":',
        f"{SET}.cuda[0]",
        "'12.8.1'",
        "a release such as 12.4",
    ),
    Wrong(
        "CUDA as a number",
        (('["12.8", "13.0"]', "[12.8]"),),
        '"cuda":',
        f"{SET}.cuda[0]",
        "12.8",
        "text, in quotes",
    ),
    Wrong(
        "one release twice",
        (('["12.8", "13.0"]', '["12.8", "12.8"]'),),
        '"cuda":',
        f"{SET}.cuda",
        "12.8, 12.8",
        "each release once",
    ),
    Wrong(
        "no CUDA that makes programs for Volta",
        (model("v100"), *NO_NVLINK, ('["12.8", "13.0"]', '["13.0"]')),
        '"cuda":',
        f"{SET}.cuda",
        "13.0",
        "9.0 to 12.x for hardware class hgx (volta); the nearest one for this driver is 12.9",
    ),
    Wrong(
        "no CUDA that makes programs for Blackwell",
        (model("b200"), ('["12.8", "13.0"]', '["12.4", "12.6"]')),
        '"cuda":',
        f"{SET}.cuda",
        "12.4, 12.6",
        "12.8 or later for hardware class hgx (blackwell); the nearest one for this driver is 12.8",
    ),
    Wrong(
        "two CUDA releases of the distribution",
        (('"packaging": "nvidia"', '"packaging": "debian"'),),
        '"cuda":',
        f"{SET}.cuda",
        "12.8, 13.0",
        "one release: the distribution's archive has only one, in unversioned packages",
    ),
    # -- containers, DCGM, further parts
    Wrong(
        "container engines without the toolkit",
        (without('"container_toolkit": "1.18.0"'),),
        STACK,
        f"{SET}.container_toolkit",
        "not declared",
        "a version: without it, containers of containerd get no GPUs",
    ),
    Wrong(
        "a toolkit without container engines",
        (('"containers": {"engines": ["containerd"]},', ""),),
        '"container_toolkit"',
        f"{SET}.container_toolkit",
        "1.18.0",
        "leave it out, or add software.containers.engines: only containers need it",
    ),
    Wrong(
        "a toolkit that does not follow driver changes",
        (('"container_toolkit": "1.18.0"', '"container_toolkit": "1.17.8"'),),
        '"container_toolkit"',
        f"{SET}.container_toolkit",
        "1.17.8",
        "1.18.0 or later, which updates CDI after driver changes",
    ),
    Wrong(
        "an unknown container engine",
        (('["containerd"]', '["cri-o"]'), without('"container_toolkit": "1.18.0"')),
        '"containers"',
        "software.containers.engines[0]",
        "'cri-o'",
        "'containerd', 'docker' or 'podman'",
    ),
    Wrong(
        "DCGM 3",
        (('"dcgm": "4.4.1"', '"dcgm": "3.3.9"'),),
        '"dcgm"',
        f"{SET}.dcgm",
        "3.3.9",
        "4.0.0 or later: earlier versions have different package names",
    ),
    Wrong(
        "DCGM from before CUDA 13",
        (('"dcgm": "4.4.1"', '"dcgm": "4.3.1"'),),
        '"dcgm"',
        f"{SET}.dcgm",
        "4.3.1 with driver 580.95.05",
        "4.4.0 or later: the driver provides CUDA 13",
    ),
    Wrong(
        "the exporter without DCGM",
        (without('"dcgm": "4.4.1"'),),
        STACK,
        f"{SET}.dcgm",
        "not declared",
        "a version: dcgm_exporter 4.5.2 needs DCGM's host engine",
    ),
    Wrong(
        "GDRCopy on a shared kernel",
        (
            ('"boot_loader": "grub"', '"boot_loader": "none"'),
            ('                "kernel_args": ["iommu=pt"],\n', ""),
            (
                '                "hugepages": [{"size": "2M", "numa_node": 1, "count": 1024}],\n',
                "",
            ),
        ),
        '"gdrcopy"',
        f"{SET}.gdrcopy",
        "2.5.1",
        "leave it out: it needs a kernel module, and no hardware class with GPUs boots its own "
        'kernel (boot_loader: "none")',
    ),
    Wrong(
        "GDRCopy that does not recognize the open modules",
        (('"gdrcopy": "2.5.1"', '"gdrcopy": "2.4.1"'),),
        '"gdrcopy"',
        f"{SET}.gdrcopy",
        "2.4.1 with the open modules of driver 580.95.05",
        "2.4.3 or later for the open modules of branch 545 and later",
    ),
    Wrong(
        "GPUDirect Storage with proprietary modules",
        (('"gdrcopy": "2.5.1"', '"nvidia_fs": "2.28.4", "modules": "proprietary"'),),
        '"nvidia_fs"',
        f"{SET}.nvidia_fs",
        "2.28.4 with the proprietary modules of hardware class hgx",
        'modules: "open", or nvidia_fs before 2.17.5',
    ),
    # -- where packages come from
    Wrong(
        "parts that no archive holds",
        ((REPOSITORY, ""), *NO_DCGM),
        '"repositories"',
        "software.repositories",
        "none",
        "a repository that provides driver, fabric_manager, nscq, cuda, container_toolkit, nccl, "
        'gdrcopy: the distribution\'s archive does not; or set packaging: "debian"',
    ),
    Wrong(
        "parts that Debian's archive does not hold",
        (
            (REPOSITORY, ""),
            ('"packaging": "nvidia"', '"packaging": "debian"'),
            ('["12.8", "13.0"]', '["12.8"]'),
        ),
        '"repositories"',
        "software.repositories",
        "none",
        "a repository that provides fabric_manager, nscq, dcgm, dcgm_exporter, container_toolkit, "
        "gdrcopy: the distribution's archive does not",
    ),
    Wrong(
        "an unknown packaging",
        (('"packaging": "nvidia"', '"packaging": "runfile"'),),
        '"packaging"',
        f"{SET}.packaging",
        "'runfile'",
        "'debian', 'nvidia' or 'ubuntu'",
    ),
    Wrong(
        "a lock that leaves the set",
        (('{"slurmd": "24.11.5-4"}', '{"libcuda1": "580.82.07-1"}'),),
        '"versions"',
        "software.versions.libcuda1",
        "580.82.07-1, but driver is 580.95.05",
        "580.95.05-*, as in software.nvidia",
    ),
    Wrong(
        "a key that is not armored",
        (('"key": _KEY', '"key": "keys/nvidia.gpg"'),),
        '"key":',
        "software.repositories[0].key",
        "'keys/nvidia.gpg'",
        KEY_RULE,
    ),
    Wrong(
        "an address that is none",
        (
            (
                '"uri": "https://mirror.example.net/cuda/debian13/x86_64"',
                '"uri": "mirror.example.net/cuda"',
            ),
        ),
        '"uri"',
        "software.repositories[0].uri",
        "'mirror.example.net/cuda'",
        "a repository URL, such as https://packages.example.net/debian, with other characters as "
        "%20",
    ),
    Wrong(
        "a suite of two words",
        (('"suite": "/"', '"suite": "trixie main"'),),
        '"suite"',
        "software.repositories[0].suite",
        "'trixie main'",
        "one word of letters, digits and ./_~+-",
    ),
    Wrong(
        "a suite without components",
        (('"suite": "/"', '"suite": "trixie"'),),
        '{\n                    "name": "nvidia"',
        "software.repositories[0].components",
        "none for the suite trixie",
        'at least one, such as "main"; or a flat repository, whose suite ends in "/"',
    ),
    Wrong(
        "components of a folder",
        (('"suite": "/"', '"suite": "/",\n                    "components": ["main"]'),),
        '"components"',
        "software.repositories[0].components",
        "main for the flat repository /",
        'no components: a suite that ends in "/" is a flat repository',
    ),
    Wrong(
        "two repositories of one name",
        (
            (
                REPOSITORY,
                REPOSITORY
                + '                {"name": "nvidia", "uri": "https://docker.example.net",\n'
                '                 "suite": "trixie", "components": ["stable"], "key": _KEY},\n',
            ),
        ),
        '{"name": "nvidia"',
        "software.repositories[1].name",
        "nvidia",
        "a unique name among the repositories",
    ),
    Wrong(
        "two keys of one suite",
        (
            (
                REPOSITORY,
                REPOSITORY + '                {"name": "again", "suite": "/",\n'
                '                 "uri": "https://mirror.example.net/cuda/debian13/x86_64/",\n'
                '                 "key": _KEY.replace("b", "c")},\n',
            ),
        ),
        '"key": _KEY.replace',
        "software.repositories[1].key",
        "a different key from nvidia, "
        "although both are for https://mirror.example.net/cuda/debian13/x86_64/ /",
        "one key per suite: apt rejects a second one",
    ),
    # -- systems and machines
    Wrong(
        "packages of another distribution",
        (
            ('"packaging": "nvidia"', '"packaging": "ubuntu"'),
            ('"cuda": ["12.8", "13.0"]', '"cuda": ["13.0"]'),
        ),
        '"packaging"',
        f"{SET}.packaging",
        "ubuntu on debian_13",
        '"nvidia" or "debian"',
    ),
    Wrong(
        "a stack for no GPUs",
        (
            *NO_NVLINK[:2],
            (GPU_BLOCK, ""),
        ),
        STACK,
        SET,
        "driver 580.95.05",
        "leave it out: no hardware class has NVIDIA GPUs",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_whole_message(
    case: Wrong,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = changed(*case.changes)
    said = refused(text, tmp_path, monkeypatch, capsys)
    assert said == message(line_of(text, case.at), case.field, case.found, case.allowed)


MIXED = """\
            "old": {"sockets": 1, "cores_per_socket": 8, "memory_mib": 32000,
                    "gpu": {"model": "v100", "count": 1}},
"""


def test_one_set_serves_two_architectures(tmp_path: Path) -> None:
    """CUDA 12.8 is for the old GPUs, 13.0 for the new ones; modules are chosen per class."""
    head = '            "head": {"sockets": 1'
    (tmp_path / "unit.py").write_text(changed((head, MIXED + head)), encoding="utf-8")
    classes = load(str(tmp_path / "unit.py")).classes
    chosen = {one.name: one.nvidia and one.nvidia.driver.flavour for one in classes.values()}
    assert chosen == {"head": None, "old": "proprietary", "hgx": "open"}


@pytest.mark.parametrize(
    "layout",
    [
        "1g.18gb 1g.18gb 1g.18gb 1g.18gb 1g.18gb 1g.18gb 1g.18gb+me",
        "3g.71gb 3g.71gb",
        "4g.71gb 3g.71gb",
        "3g.71gb 2g.35gb 2g.35gb",
        "1g.35gb 1g.35gb 1g.35gb 1g.35gb",
        "7g.141gb",
    ],
)
def test_instances_that_fill_a_gpu_are_right(layout: str) -> None:
    wanted = description()
    wanted["hardware"]["hgx"]["gpu"]["mig"] = layout.split()
    assert spec.load(wanted, declared())[1] == []


def test_a_release_without_packages_gets_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    few = replace(rocky_9.RELEASE, supported_roles=("os_settings", "kernel"))
    monkeypatch.setattr(rocky_9, "RELEASE", few)
    wanted = description()
    wanted["os"]["release"] = "rocky_9"
    wanted["hardware"]["hgx"]["gpu"].update(power_limit_w=500, mig=["1g.18gb"], ecc=False)
    found = {
        ".".join(map(str, problem.path)): (problem.value, problem.allowed)
        for problem in spec.load(wanted, declared())[1]
    }
    packages = "leave it out: packages are not supported on rocky_9 yet"
    settings = "leave it out: GPU settings are not supported on rocky_9 yet"
    assert (
        found.items()
        >= {
            "software.nvidia": ("driver 580.95.05", packages),
            "software.containers.engines": ("containerd", packages),
            "software.repositories": ("nvidia", packages),
            "hardware.hgx.gpu.power_limit_w": ("500.0", settings),
            "hardware.hgx.gpu.ecc": ("False", settings),
            "hardware.hgx.gpu.mig": ("1g.18gb", settings),
        }.items()
    )


def test_engines_need_the_set_where_there_are_gpus() -> None:
    wanted = description()
    del wanted["software"]["nvidia"]
    (problem,) = spec.load(wanted, declared())[1]
    assert (problem.path, problem.value, problem.allowed) == (
        ("software", "containers", "engines"),
        "containerd",
        "software.nvidia with container_toolkit: without it, containers get no GPUs",
    )
    del wanted["hardware"]["hgx"]["gpu"]
    assert spec.load(wanted, declared())[1] == []


@pytest.mark.parametrize(
    ("engines", "refused"), [(["podman"], []), (["docker", "podman"], ["docker"])]
)
def test_engines_without_cdi_are_refused(engines: list[str], refused: list[str]) -> None:
    wanted = description()
    wanted["os"]["release"] = "debian_12"
    wanted["software"]["containers"]["engines"] = engines
    found = [p.value for p in spec.load(wanted, declared())[1] if p.path[-1] == "engines"]
    assert found == refused


def test_a_lock_of_the_revision_stays_in_the_set() -> None:
    wanted = description()
    wanted["software"]["versions"] = {"libcuda1": "580.95.05-1", "libnvidia-ml1": "1:580.95.05-3"}
    assert spec.load(wanted, declared())[1] == []


def test_the_example_itself_is_right(tmp_path: Path) -> None:
    (tmp_path / "unit.py").write_text(SOURCE, encoding="utf-8")
    assert len(load(str(tmp_path / "unit.py")).nodes) == 6


@pytest.mark.parametrize("release", ["debian_12", "ubuntu_24_04"])
def test_divided_gpus_are_refused_where_slurm_cannot_be_told_of_them(release: str) -> None:
    wanted = plain()
    wanted["os"]["release"] = release
    wanted["hardware"]["hgx"]["gpu"]["mig"] = ["3g.71gb", "2g.35gb"]
    (problem,) = spec.load(wanted, declared())[1]
    assert (problem.path, problem.value, problem.allowed) == (
        ("hardware", "hgx", "gpu", "mig"),
        "3g.71gb, 2g.35gb with Slurm",
        f"leave it out: no Slurm plugin on {release} detects MIG devices",
    )
    del wanted["scheduler"]
    assert not [p for p in spec.load(wanted, declared())[1] if p.path[-1] == "mig"]


OTHERS = {"vendor": "amd", "count": 8}


def test_settings_of_nvidia_are_refused_for_other_vendors() -> None:
    wanted = plain()
    wanted["hardware"]["hgx"]["gpu"] = {**OTHERS, "power_limit_w": 500, "mig": ["1g.5gb"]}
    found = {p.path: (p.value, p.allowed) for p in spec.load(wanted, declared())[1]}
    said = "leave it out: Lockstep does not set or check AMD GPUs"
    assert found == {
        ("hardware", "hgx", "gpu", "mig"): ("('1g.5gb',)", said),
        ("hardware", "hgx", "gpu", "power_limit_w"): ("500.0", said),
    }


def test_a_stack_of_nvidia_is_refused_if_all_gpus_are_of_others() -> None:
    wanted = description()
    wanted["hardware"]["hgx"]["gpu"] = OTHERS
    for part in ("fabric_manager", "nscq"):
        del wanted["software"]["nvidia"][part]
    (problem,) = spec.load(wanted, declared())[1]
    assert (problem.path, problem.allowed) == (
        ("software", "nvidia"),
        "leave it out: no hardware class has NVIDIA GPUs",
    )


@pytest.mark.parametrize(
    "model", ["NVIDIA X", {"name": "NVIDIA X"}, "NVIDIA H100 PCIe", "a800_40gb"]
)
def test_a_model_needs_no_more_than_its_name(model: object) -> None:
    wanted = description()
    wanted["hardware"]["hgx"]["gpu"].update(model=model, mig=["1g.10gb"], power_limit_w=123)
    if model == "NVIDIA H100 PCIe":  # of which the profiles are known
        wanted["hardware"]["hgx"]["gpu"]["mig"] = ["7g.80gb"]
    assert spec.load(wanted, declared())[1] == []


def test_a_release_that_is_newer_than_the_tables_is_not_refused() -> None:
    wanted = description()
    stack = wanted["software"]["nvidia"]
    stack.update(driver="999.10.01", fabric_manager="999.10.01", nscq="999.10.01", cuda=["13.9"])
    assert spec.load(wanted, declared())[1] == []
