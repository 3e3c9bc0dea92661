"""cuFile's settings: a file of Lockstep's own, which login shells name; NVIDIA's stays as it is."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lockstep.files import managed
from lockstep.inventory import planned
from lockstep.plan import NodePlan
from lockstep.spec import Cluster
from tests.plan.on_release import prod_on, texts

FILE = "/etc/lockstep/cufile.json"
SHELL_FILE = "/etc/profile.d/50-lockstep-cufile.sh"
SETTINGS = {
    "properties.allow_compat_mode": False,
    "properties.posix_pool_slab_size_kb": [4, 1024],
    "fs.lustre.rdma_dev_addr_list": ["172.16.8.1"],
    "logging.level": "ERROR",
    "execution.max_io_threads": 8,
}


def description(**cufile: Any) -> dict[str, Any]:
    wanted = prod_on("ubuntu_24_04")
    wanted["software"]["nvidia"]["cufile"] = cufile
    return wanted


def worker(**cufile: Any) -> NodePlan:
    return planned(Cluster.model_validate(description(**cufile))).nodes["worker01"]


def files(plan: NodePlan) -> dict[str, str]:
    return {one.path: one.content.decode() for one in managed(plan, None, "cuda")}


def test_each_part_of_a_name_is_an_object_of_the_file() -> None:
    assert json.loads(files(worker(**SETTINGS))[FILE]) == {
        "properties": {"allow_compat_mode": False, "posix_pool_slab_size_kb": [4, 1024]},
        "fs": {"lustre": {"rdma_dev_addr_list": ["172.16.8.1"]}},
        "logging": {"level": "ERROR"},
        "execution": {"max_io_threads": 8},
    }


def test_without_settings_there_is_no_file() -> None:
    assert not {FILE, SHELL_FILE} & files(worker()).keys()
    assert "/etc/cufile.json" not in files(worker(**SETTINGS))


@pytest.mark.parametrize(("before", "after"), [("", FILE), ("/home/user/own.json", None)])
def test_login_shells_name_the_file_unless_the_user_has_one(before: str, after: str | None) -> None:
    script = files(worker(**SETTINGS))[SHELL_FILE]
    said = subprocess.run(
        ["sh", "-euc", f'{script}\necho "$CUFILE_ENV_PATH_JSON"'],
        env={"CUFILE_ENV_PATH_JSON": before} if before else {},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == (after or before)


def test_a_file_that_is_not_json_is_refused(tmp_path: Path) -> None:
    (file,) = (one for _, one in worker(**SETTINGS).system.files if one.path == FILE)
    new = tmp_path / "new"
    for content, status in (('{"a": 1}', 0), ('{"a": 1', 1)):
        new.write_text(content)
        command = file.validate.format(new=shlex.quote(str(new)))
        assert subprocess.run(["sh", "-c", command], capture_output=True).returncode == status


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (
            "properties.allow_compat",
            True,
            "a setting of cuFile; did you mean properties.allow_compat_mode",
        ),
        ("properties.allow_compat_mode", 1, "1 -> true or false"),
        ("properties.io_batchsize", True, "True -> a whole number"),
        ("properties.posix_pool_slab_count", ["a"], "('a',) -> whole numbers"),
        ("fs.nfs.rdma_dev_addr_list", "172.16.8.1", "172.16.8.1 -> texts"),
    ],
)
def test_a_setting_that_cufile_does_not_read_is_refused(name: str, value: Any, said: str) -> None:
    found = [one for one in texts(description(**{name: value})) if "cufile" in one]
    assert len(found) == 1
    assert said in found[0]


@pytest.mark.parametrize("part", ["nvidia_fs", "cuda"])
def test_settings_without_gpudirect_storage_are_refused(part: str) -> None:
    wanted = description(**SETTINGS)
    del wanted["software"]["nvidia"][part]
    assert any("declare nvidia_fs and cuda" in one for one in texts(wanted))
