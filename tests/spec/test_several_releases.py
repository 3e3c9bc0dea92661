"""Several operating systems in one description: what the messages say."""

from pathlib import Path

import pytest

from lockstep.inventory import load
from tests.spec.example import edited, line_of
from tests.spec.nvidia_example import changed
from tests.spec.test_wrong_specs import message, refused

HEAD, WORKERS = '"name": "head2",', '"name": "worker[1-4]",'
OTHER = (HEAD, f'{HEAD}\n                "release": "debian_12",')
"""One head is on another release than the other nodes."""
NAMED = '"suite": "/",'
FOR_WORKERS = (NAMED, f'{NAMED}\n                    "releases": ["debian_13"],')
FOR_HEAD = (NAMED, f'{NAMED}\n                    "releases": ["debian_12"],')
VERSIONS = '"versions": {"slurmd": "24.11.5-4"},'
REPOSITORY = "software.repositories[0].releases"


def own(release: str, package: str, version: str) -> tuple[str, str]:
    """Lock a package on one release."""
    line = f'"versions_on": {{"{release}": {{"{package}": "{version}"}}}},'
    return VERSIONS, f"{VERSIONS}\n            {line}"


@pytest.mark.parametrize(
    ("changes", "at", "field", "found", "allowed"),
    [
        pytest.param(
            (OTHER,),
            '{\n                    "name": "nvidia"',
            REPOSITORY,
            "none for the repository nvidia",
            "the releases whose nodes use it, of debian_13, debian_12",
            id="a repository of no certain release",
        ),
        pytest.param(
            (OTHER, (NAMED, f'{NAMED} "releases": ["debian_13", "rocky_9"],')),
            '"releases": ["debian_13"',
            f"{REPOSITORY}[1]",
            "rocky_9",
            "one of debian_13, debian_12: no node has another release",
            id="a repository of a release that no node has",
        ),
        pytest.param(
            (OTHER, FOR_HEAD),
            '"repositories": [',
            "software.repositories",
            "none for debian_13",
            "a repository that provides driver, fabric_manager, nscq, cuda, dcgm, dcgm_exporter, "
            "container_toolkit, nccl, gdrcopy: the distribution's archive does not; or set "
            'packaging: "debian"',
            id="no repository for the workers' release",
        ),
        pytest.param(
            (own("ubuntu_24_04", "slurmd", "23.11.4-1"),),
            '"versions_on"',
            "software.versions_on.ubuntu_24_04",
            "ubuntu_24_04",
            "one of debian_13: no node has another release",
            id="versions on a release that no node has",
        ),
        pytest.param(
            (OTHER, FOR_WORKERS, own("debian_13", "libcuda1", "575.57.08-1")),
            '"versions_on"',
            "software.versions_on.debian_13.libcuda1",
            "575.57.08-1, but driver is 580.95.05",
            "580.95.05-*, as in software.nvidia",
            id="a version of a release that contradicts the stack",
        ),
    ],
)
def test_the_whole_message(
    changes: tuple[tuple[str, str], ...],
    at: str,
    field: str,
    found: str,
    allowed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = changed(*changes)
    said = refused(text, tmp_path, monkeypatch, capsys)
    assert said == message(line_of(text, at), field, found, allowed)


def test_a_package_of_another_release_is_unknown_on_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = changed(OTHER, FOR_WORKERS, own("debian_12", "slurm-slurmd", "22.05.9-1"))
    said = refused(text, tmp_path, monkeypatch, capsys)
    assert "software.versions_on.debian_12.slurm-slurmd\n  found    slurm-slurmd\n" in said


def test_what_a_release_cannot_do_is_refused_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = (WORKERS, f'{WORKERS}\n                "release": "ubuntu_24_04",')
    debians = ('"packaging": "nvidia"', '"packaging": "debian"')
    text = changed(other, (NAMED, f'{NAMED} "releases": ["ubuntu_24_04"],'), debians)
    said = refused(text, tmp_path, monkeypatch, capsys)
    assert 'found    debian on ubuntu_24_04\n  allowed  "nvidia" or "ubuntu"\n' in said


def test_the_right_description_has_no_problem(tmp_path: Path) -> None:
    text = changed(OTHER, FOR_WORKERS, own("debian_12", "munge", "0.5.15-2"))
    (tmp_path / "unit.py").write_text(text, encoding="utf-8")
    cluster = load(str(tmp_path / "unit.py"))
    assert {name: node.release.name for name, node in cluster.nodes.items()} == {
        **dict.fromkeys(("head1", *(f"worker{n}" for n in range(1, 5))), "debian_13"),
        "head2": "debian_12",
    }


# -- Slurm's versions


@pytest.mark.parametrize(
    ("heads", "workers", "found", "allowed"),
    [
        (
            "debian_13",
            "debian_12",
            "slurmd 22.05 on debian_12",
            "Slurm 24.11, 24.05, 23.11, 23.02: what slurmctld 24.11 on debian_13 (head1) accepts",
        ),
        (
            "debian_12",
            "debian_13",
            "slurmd 24.11 on debian_13",
            "Slurm 22.05, 21.08, 20.11: what slurmctld 22.05 on debian_12 (head1) accepts",
        ),
        ("debian_13", "ubuntu_24_04", "", ""),
        ("ubuntu_24_04", "debian_12", "", ""),
    ],
)
def test_the_controller_must_understand_the_workers(
    heads: str,
    workers: str,
    found: str,
    allowed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = edited(
        ('"release": "debian_13"', f'"release": "{heads}"'),
        (WORKERS, f'{WORKERS}\n                "release": "{workers}",'),
        ('        "software": {"versions": {"slurmd": "24.11.5-4"}},\n', ""),
    )
    if not found:
        (tmp_path / "unit.py").write_text(text, encoding="utf-8")
        assert load(str(tmp_path / "unit.py")).nodes["worker1"].release.name == workers
        return
    said = refused(text, tmp_path, monkeypatch, capsys)
    line = line_of(text, f'"release": "{workers}",')
    further = "; lock such a version in software.versions_on, or choose another release"
    field = "nodes[2].release (node worker[1-4])"
    assert said == message(line, field, found, allowed + further)


def test_a_locked_version_counts_instead_of_the_archive(tmp_path: Path) -> None:
    text = edited(
        (WORKERS, f'{WORKERS}\n                "release": "debian_12",'),
        ('{"slurmd": "24.11.5-4"}}', '{}, "versions_on": {"debian_12": {"slurmd": "23.11.4-1"}}}'),
    )
    (tmp_path / "unit.py").write_text(text, encoding="utf-8")
    assert load(str(tmp_path / "unit.py")).nodes["worker1"].release.name == "debian_12"
