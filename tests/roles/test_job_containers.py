"""enroot's programs and pyxis' plugin on this machine, with simulated srun and apt-get."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lockstep.facts.containers import folders_open_to_all, slurm_loads
from lockstep.files import managed
from lockstep.roles.operations.pyxis import plugin_of_this_slurm
from tests.plan.test_job_containers import EVERY, planned
from tests.roles.local import asked, run

PLUGIN = "/usr/lib/x86_64-linux-gnu/slurm/spank_pyxis.so"
SRUN = f"""#!/bin/sh
line="$(cat "$(sed -n 's/^PlugStackConfig=//p' "$SLURM_CONF")")"
[ "$line" = "required {PLUGIN}" ] || exit 3
if [ ! -e FITS ]; then echo 'srun: error: spank: Incompatible plugin version' >&2; exit 1; fi
echo '      --container-image=PATH  [pyxis]'
"""


def program(name: str, folder: Path) -> Path:
    """A program of enroot's configuration, as a worker has it."""
    worker = planned(EVERY).nodes["worker1"]
    (file,) = (one for one in managed(worker, None, "enroot") if one.path.endswith(f"/{name}"))
    path = folder / name
    path.write_bytes(file.content)
    path.chmod(0o755)
    return path


# -- enroot


def test_a_users_folder_is_made_once_and_is_the_users_alone(tmp_path: Path) -> None:
    folder = program("enroot-folder", tmp_path)
    for _ in range(2):
        said = subprocess.run([folder, tmp_path], capture_output=True, text=True, check=True)
        own = tmp_path / f"user-{os.getuid()}"
        assert said.stdout == f"{own}\n"
        assert own.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("theirs", ["open to all", "a link"])
def test_a_folder_that_another_made_is_refused(tmp_path: Path, theirs: str) -> None:
    own = tmp_path / f"user-{os.getuid()}"
    if theirs == "a link":
        own.symlink_to(tmp_path)
    else:
        own.mkdir()
        own.chmod(0o777)
    done = subprocess.run(
        [program("enroot-folder", tmp_path), tmp_path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{own}: not a folder of" in done.stderr


@pytest.mark.parametrize(
    ("job", "gpus", "visible"),
    [
        ({}, 8, "all"),
        ({"SLURM_JOB_ID": "1"}, 8, "void"),
        ({"SLURM_JOB_ID": "1", "SLURM_STEP_GPUS": "2,5", "SLURM_JOB_GPUS": "1,2,5"}, 8, "2,5"),
        ({"SLURM_JOB_ID": "1", "SLURM_JOB_GPUS": "7"}, 8, "7"),
        # A cgroup hides the others: the job's GPUs are numbered from 0.
        ({"SLURM_JOB_ID": "1", "SLURM_STEP_GPUS": "2,5"}, 2, "all"),
    ],
    ids=["no job", "no GPUs", "a step", "a batch script", "constrained"],
)
def test_a_container_is_to_see_the_gpus_of_its_job(
    tmp_path: Path, job: dict[str, str], gpus: int, visible: str
) -> None:
    double = tmp_path / "nvidia-smi"
    double.write_text(f"#!/bin/sh\nfor n in $(seq {gpus}); do echo GPU $n: H200; done\n")
    double.chmod(0o755)
    done = subprocess.run(
        [program("enroot-gpus", tmp_path)],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", **job},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{visible}\n"


def test_gpus_that_cannot_be_counted_are_not_given_to_a_job(tmp_path: Path) -> None:
    double = tmp_path / "nvidia-smi"
    double.write_text("#!/bin/sh\nexit 9\n")
    double.chmod(0o755)
    done = subprocess.run(
        [program("enroot-gpus", tmp_path)],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "1", "SLURM_STEP_GPUS": "2"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "void\n"
    assert "does not answer" in done.stderr


def test_folders_count_when_everybody_may_make_one_in_them(tmp_path: Path) -> None:
    good, closed = tmp_path / "good", tmp_path / "closed"
    for folder in (good, closed):
        folder.mkdir()
    good.chmod(0o1777)
    paths = (str(good), str(closed), str(tmp_path / "none"))
    if good.owner() == "root":
        assert asked(folders_open_to_all(paths)) == {str(good)}


# -- pyxis


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file: while it exists, srun loads the plugin. apt-get makes it, if ``build`` exists."""
    (tmp_path / "bin").mkdir()
    doubles = {
        "srun": SRUN.replace("FITS", str(tmp_path / "fits")),
        "apt-get": f'#!/bin/sh\n[ ! -e {tmp_path}/build ] || case "$*" in\n'
        f"*--simulate*) ;; *install*nvslurm-plugin-pyxis=*) touch {tmp_path}/fits;; esac\n",
        "apt-mark": "#!/bin/sh\n",
        "systemctl": "#!/bin/sh\n",
    }
    for name, text in doubles.items():
        path = tmp_path / "bin" / name
        path.write_text(text)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    return tmp_path / "fits"


ARGUMENTS = {"version": "0.24.0-*", "slurm": "24.11", "plugin": PLUGIN, "family": "debian"}


def test_a_plugin_that_slurm_loads_is_left_alone(slurm: Path) -> None:
    slurm.touch()
    assert asked(slurm_loads(PLUGIN))
    assert run(plugin_of_this_slurm, **ARGUMENTS, otherwise="false").commands == 0


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="no dpkg here")
def test_a_plugin_for_another_slurm_is_installed_again(slurm: Path, tmp_path: Path) -> None:
    (tmp_path / "build").touch()
    assert not asked(slurm_loads(PLUGIN))
    assert run(plugin_of_this_slurm, **ARGUMENTS, otherwise=f"touch {tmp_path}/harm").succeeded
    assert slurm.exists()
    assert not (tmp_path / "harm").exists()


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="no dpkg here")
def test_without_a_build_jobs_are_kept_from_harm_and_it_fails(slurm: Path, tmp_path: Path) -> None:
    assert not run(plugin_of_this_slurm, **ARGUMENTS, otherwise=f"touch {tmp_path}/safe").succeeded
    assert (tmp_path / "safe").exists()
