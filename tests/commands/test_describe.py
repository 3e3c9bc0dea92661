"""``lockstep describe``: the draft, its file, and hosts that do not answer."""

from __future__ import annotations

import ast
import getpass
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lockstep.probe.record import Reading, Unreachable
from tests.checks import recorded
from tests.commands.conftest import ended, refused
from tests.describe import hosts
from tests.fast.sshd import ROOT, SSHD, Hosts


class Asked:
    """Stands in for ``gather_hosts``: what the hosts answer, and how they were asked."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.logins: Mapping[str, dict[str, Any]] = {}
        self.files: list[str] = []

    def __call__(
        self, logins: Mapping[str, dict[str, Any]], tell: Callable[[bool], None]
    ) -> Reading:
        self.logins = logins
        self.files = os.listdir()
        gone = Unreachable("ssh: timed out")
        for host in logins:
            tell(host not in self.reading)
        return {host: self.reading.get(host, gone) for host in logins}


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Reading:
    return hosts.read(recorded.consistent(), tmp_path_factory.mktemp("conf"))


@pytest.fixture
def asked(reading: Reading, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    monkeypatch.chdir(tmp_path)
    made = Asked(reading)
    monkeypatch.setattr("lockstep.commands.describe.gather_hosts", made)
    return made


def test_the_draft_is_printed_and_its_next_step_is_on_standard_error(
    asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended("describe", "head1", "worker[1-8]") == 0
    said = capsys.readouterr()
    ast.parse(said.out)
    assert said.out.startswith("# A draft of ")
    assert said.out.partition("\n")[0].endswith(": lockstep describe head1 'worker[1-8]'")
    assert said.err.endswith(
        "9 nodes: 2 hardware classes, 2 node groups, 4 TODOs\n"
        "Next: compare each value with what you configured, fill in each TODO, then run lockstep "
        "plan INVENTORY\n"
    )
    assert list(asked.logins) == ["head1", *(f"worker{n}" for n in range(1, 9))]


def test_the_file_is_there_before_the_hosts_are_read(asked: Asked) -> None:
    assert ended("describe", "head1", "worker[1-8]", "-o", "draft.py") == 0
    assert asked.files == ["draft.py"]
    assert Path("draft.py").read_text().startswith("# A draft of ")


def test_a_file_that_exists_is_never_replaced(
    asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("prod.py").write_text("mine")
    assert refused(capsys, "describe", "head1", "-o", "prod.py") == (
        "ERROR --output prod.py: the file exists, and a draft never replaces one\n"
        "  next      choose another name, or remove it: rm prod.py\n"
    )
    assert Path("prod.py").read_text() == "mine"
    assert not asked.logins


def test_a_host_that_does_not_answer_is_named_and_the_others_are_drafted(
    asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended("describe", "head1", "worker[1-8]", "worker[10-11]", "-o", "draft.py") == 1
    said = capsys.readouterr().err
    assert "worker10, worker11: not in the draft: ssh: timed out\n" in said
    assert "# not read: worker10, worker11: ssh: timed out\n" in Path("draft.py").read_text()


def test_without_any_answer_there_is_no_draft(
    asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended("describe", "a", "b", "--user", "ops", "-o", "draft.py") == 2
    assert capsys.readouterr().err.endswith(
        "ERROR no host could be read, so there is no draft\n  a, b: ssh: timed out\n"
    )
    assert not Path("draft.py").exists()


def test_the_options_of_ssh_reach_each_host_and_the_description(asked: Asked) -> None:
    for name in ("key", "known", "config"):
        Path(name).touch()
    options = ("--user", "ops", "--port", "2222", "--key", "key", "--known-hosts", "known")
    assert ended("describe", "head1", *options, "--ssh-config", "config", "-o", "draft.py") == 0
    here = Path.cwd()
    assert asked.logins == {
        "head1": {
            "ssh_hostname": "head1",
            "ssh_user": "ops",
            "ssh_port": 2222,
            "ssh_key": str(here / "key"),
            "ssh_known_hosts_file": str(here / "known"),
            "ssh_config_file": str(here / "config"),
            "ssh_strict_host_key_checking": "yes",
            "_sudo": True,
        }
    }
    text = Path("draft.py").read_text()
    for line in ('"user": "ops"', '"port": 2222', f'"key": "{here / "key"}"'):
        assert f"{line}," in text


def test_what_a_check_does_not_read_of_ssh_s_configuration_is_in_the_description(
    asked: Asked,
) -> None:
    Path("ours.conf").write_text(
        "Host head1 worker1\n  Port 2222\n  IdentityFile /k/ops\n"
        "Host head1\n  UserKnownHostsFile /k/known\n"
    )
    assert ended("describe", "head1", "worker1", "--ssh-config", "ours.conf", "-o", "a.py") == 0
    text = Path("a.py").read_text()
    assert '"port": 2222,  # found in ours.conf, ' in text
    assert '"key": "/k/ops",' in text
    assert '"known_hosts"' not in text  # the hosts have different files
    assert ended("describe", "head1", "--ssh-config", "ours.conf", "--port", "1", "-o", "b.py") == 0
    text = Path("b.py").read_text()
    assert '"port": 1,  # as given on the command line' in text
    assert '"known_hosts": "/k/known",' in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("worker[1-",), "worker[1-: "),
        (("a\x1b",), "'a\\x1b': not a host\n  expected  a host name or an address"),
        (("a", "--key", "gone"), "--key gone: the file cannot be read"),
        (("a", "-o", "gone/x.py"), "the folder does not exist\n  next      mkdir -p gone"),
    ],
)
def test_wrong_use(
    asked: Asked, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert said in refused(capsys, "describe", *words)
    assert not asked.logins


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Hosts]:
    made = Hosts(tmp_path, ("one", "two"))
    yield made
    made.end()


@pytest.mark.integration
@pytest.mark.skipif(SSHD is None, reason="needs sshd (openssh-server)")
def test_hosts_are_read_over_ssh_and_their_keys_are_checked(
    machines: Hosts, tmp_path: Path
) -> None:
    machines.inventory()  # writes known_hosts
    sudo = tmp_path / "programs" / "sudo"
    sudo.write_text('#!/bin/sh\nshift 2\nunset SSH_CONNECTION\nexec "$@"\n')
    sudo.chmod(0o755)
    config = tmp_path / "config"
    config.write_text(
        "".join(
            f"Host {name}\n  HostName 127.0.0.1\n  Port {port}\n  User {getpass.getuser()}\n"
            for name, port in machines.ports.items()
        )
    )

    def describe(known: str) -> subprocess.CompletedProcess[str]:
        options = ("--ssh-config", config, "--key", tmp_path / "login", "--known-hosts", known)
        return subprocess.run(
            [sys.executable, "-m", "lockstep", "describe", "one", "two", *options],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )

    (tmp_path / "empty").touch()
    unknown = describe(str(tmp_path / "empty"))
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "one" in unknown.stderr
    done = describe(str(tmp_path / "known_hosts"))
    # Both are this machine, through the same address: it is described once.
    assert done.returncode == 1, done.stderr
    assert "two: not in the draft: it is the machine that was also given as one" in done.stderr
    ast.parse(done.stdout)
    assert f'"user": "{getpass.getuser()}",  # found on' in done.stdout
