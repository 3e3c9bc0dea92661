"""RDMA modules and the pair test on this machine; modprobe, Slurm and perftest are simulated."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from lockstep.facts.driver import rdma_driver_waits
from lockstep.roles.operations.rdma import loaded_modules
from tests.roles.local import asked, on_node, read_below, run

PAIR = Path(__file__).resolve().parents[2] / "scripts" / "rdma_pair.sh"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of doubles, first in PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def program(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


# -- modules


def test_missing_modules_are_loaded_once(programs: Path, tmp_path: Path) -> None:
    there = tmp_path / "ib_uverbs"
    there.write_text("6\n")
    modules = {"ib_uverbs": str(there), "rdma_ucm": str(tmp_path / "rdma_ucm")}
    program(programs, "modprobe", f'shift; for m; do echo 10:58 >{tmp_path}/"$m"; done')
    done = run(loaded_modules, modules=modules)
    assert (done.succeeded, done.commands) == (True, 1)
    assert (tmp_path / "rdma_ucm").exists()
    assert there.read_text() == "6\n"  # it was not loaded again
    assert run(loaded_modules, modules=modules).commands == 0


def test_a_kernel_without_the_module_says_so(programs: Path, tmp_path: Path) -> None:
    program(programs, "modprobe", "echo 'FATAL: Module rdma_ucm not found.' >&2; exit 1")
    done = run(loaded_modules, modules={"rdma_ucm": str(tmp_path / "rdma_ucm")})
    assert not done.succeeded
    assert "rdma_ucm not found" in done.output


def test_no_rdma_is_nothing_to_do() -> None:
    assert run(loaded_modules, modules={}).commands == 0


def test_no_module_is_loaded_beside_those_of_another_build(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loaded driver is the kernel's; DOCA-OFED's is on disk and waits for the next boot."""
    on_node(monkeypatch, "os.uname().release", "'6.12.94'")
    read_below(monkeypatch, tmp_path / "root")
    loaded = tmp_path / "root/sys/module/mlx5_core"
    loaded.mkdir(parents=True)
    (loaded / "srcversion").write_text("A1B2\n")
    modules = tmp_path / "root/lib/modules/6.12.94"
    modules.mkdir(parents=True)
    (modules / "modules.dep").touch()
    program(programs, "modprobe", f"touch {tmp_path}/called")
    program(
        programs,
        "modinfo",
        "echo 'filename: /lib/modules/6.12.94/updates/dkms/mlx5_core.ko'; "
        "echo 'version: 26.01-1.0.0'",
    )
    missing = {"rdma_ucm": "/sys/class/misc/rdma_cm/dev"}
    assert run(loaded_modules, modules=missing, declared=True).commands == 0
    assert asked(rdma_driver_waits()) == "mlx5_core 26.01-1.0.0, instead of A1B2"
    assert run(loaded_modules, modules=missing).commands == 1, "nothing is declared"
    (loaded / "version").write_text("26.01-1.0.0\n")
    assert asked(rdma_driver_waits()) == ""
    assert run(loaded_modules, modules=missing, declared=True).commands == 1


# -- scripts/rdma_pair.sh

ADDRESS = "fd000002000000000000000000000101"
LINK_LOCAL = "fe800000000000005054000000000101"
SAID = """\
 #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
 4096       100              120.50             100.00               0.025600
"""


def colons(digits: str) -> str:
    return ":".join(digits[at : at + 4] for at in range(0, 32, 4))


@pytest.fixture
def node(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The first of two nodes in a step; its RoCE device rxe0 has three GIDs."""
    port = tmp_path / "infiniband" / "rxe0" / "ports" / "1"
    for folder in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
        (port / folder).mkdir(parents=True)
    (port / "state").write_text("4: ACTIVE\n")
    (port / "link_layer").write_text("Ethernet\n")
    gids = (("IB/RoCE v1", ADDRESS), ("RoCE v2", LINK_LOCAL), ("RoCE v2", ADDRESS))
    for n, (kind, gid) in enumerate(gids):
        (port / "gids" / str(n)).write_text(f"{colons(gid)}\n")
        (port / "gid_attrs/types" / str(n)).write_text(f"{kind}\n")
        (port / "gid_attrs/ndevs" / str(n)).write_text("fabric0\n")
    (tmp_path / "if_inet6").write_text(
        f"{LINK_LOCAL} 03 40 20 80  fabric0\n{ADDRESS} 03 40 00 80  fabric0\n"
    )
    environment = {
        "RDMA_PAIR_SYSFS": str(tmp_path / "infiniband"),
        "RDMA_PAIR_IF_INET6": str(tmp_path / "if_inet6"),
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_NODELIST": "worker[1-2]",
        "SLURM_PROCID": "0",
        "SLURM_JOB_ID": "7",
        "SLURMD_NODENAME": "worker1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    program(programs, "scontrol", "echo worker1; echo worker2")
    program(programs, "getent", "echo 'fd00:1::12  STREAM worker2'")
    program(programs, "sleep", "exit 0")
    perftest(programs, f"cat <<'X'\n{SAID}X")
    return tmp_path


def perftest(programs: Path, body: str) -> None:
    program(
        programs,
        "ib_write_bw",
        'if [ "$1" = --help ]; then echo "  --ipv6-addr=<IPv6>"; exit; fi\n'
        f'echo "$*" >>{programs}/calls\n{body}',
    )


def pair(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["sh", str(PAIR), *arguments], capture_output=True, text=True, check=False
    )


def test_the_client_writes_and_says_how_fast(node: Path, programs: Path) -> None:
    done = pair()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "worker1 -> worker2 rxe0 ib_write_bw 104.9 MB/s\n"  # 100 * 2^20 bytes
    assert (programs / "calls").read_text() == (
        "-d rxe0 -i 1 -s 4096 -n 100 -u 18 -F -p 18522 -x 2 --ipv6-addr worker2\n"
    )


def test_the_server_says_nothing(
    node: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_PROCID", "1")
    done = pair()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (programs / "calls").read_text().endswith("-x 2 --ipv6-addr\n")


def test_the_client_waits_for_the_server(node: Path, programs: Path) -> None:
    perftest(
        programs,
        f'[ "$(wc -l <{programs}/calls)" -ge 3 ] || '
        f"{{ echo \"Couldn't connect to worker2:18522\"; exit 1; }}\ncat <<'X'\n{SAID}X",
    )
    assert pair().stdout == "worker1 -> worker2 rxe0 ib_write_bw 104.9 MB/s\n"
    assert len((programs / "calls").read_text().splitlines()) == 3


def test_a_server_that_never_comes(
    node: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    perftest(programs, 'echo "Couldn\'t connect to worker2:18522"; exit 1')
    monkeypatch.setenv("WAIT_S", "2")
    done = pair()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "rdma_pair: worker1: worker2 did not listen within 2 s\n"


def test_what_perftest_says_is_shown_and_not_tried_again(node: Path, programs: Path) -> None:
    perftest(programs, "echo 'Failed to modify QP to RTR'; exit 1")
    done = pair()
    assert done.returncode == 1
    assert "Failed to modify QP to RTR" in done.stderr
    assert len((programs / "calls").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("said", "named"),
    [("", "no bandwidth"), (SAID.replace("100.00", "0.00"), "packets are lost")],
    ids=["nothing", "zero"],
)
def test_no_bandwidth_is_a_failure(node: Path, programs: Path, said: str, named: str) -> None:
    perftest(programs, f"cat <<'X'\n{said}X")
    done = pair()
    assert (done.returncode, done.stdout) == (1, "")
    assert named in done.stderr


def test_infiniband_needs_no_gid(node: Path, programs: Path) -> None:
    (node / "infiniband/rxe0/ports/1/link_layer").write_text("InfiniBand\n")
    assert pair().returncode == 0
    assert "-x" not in (programs / "calls").read_text()


def test_a_link_local_gid_alone_is_not_enough(node: Path) -> None:
    (node / "if_inet6").write_text(f"{LINK_LOCAL} 03 40 20 80  fabric0\n")
    done = pair()
    assert done.returncode == 1
    assert "no RoCE v2 GID with a global IPv6 address" in done.stderr


def test_a_perftest_without_ipv6_is_named(node: Path, programs: Path) -> None:
    program(programs, "ib_write_bw", "echo '  --ipv6 '")
    done = pair()
    assert done.returncode == 1
    assert "install perftest 23.07 or newer" in done.stderr


def test_devices(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE", "mlx5_0")
    assert "mlx5_0: no such RDMA device" in pair().stderr
    monkeypatch.delenv("DEVICE")
    (node / "infiniband/rxe0/ports/1/state").write_text("1: DOWN\n")
    assert "no RDMA device with an active port" in pair().stderr


def test_outside_of_a_step_it_starts_one_of_two_tasks(
    node: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sbatch runs the script on the first node alone: the step gets its text, not its path."""
    program(programs, "srun", 'echo "$1 $2 $7 $8"; export SLURM_STEP_NUM_TASKS=2; shift 7; "$@"')
    monkeypatch.delenv("SLURM_STEP_NUM_TASKS")
    first, *rest = pair("-w", "worker[1-2]").stdout.splitlines()
    assert first == "--nodes=2 --ntasks=2 worker[1-2] sh"
    assert rest == ["worker1 -> worker2 rxe0 ib_write_bw 104.9 MB/s"]
