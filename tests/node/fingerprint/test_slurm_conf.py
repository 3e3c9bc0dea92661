"""slurm.conf and hostlists, in all the forms that Slurm reads."""

from __future__ import annotations

import pytest

from lockstep.node.fingerprint.hostlists import expand, fold
from lockstep.node.fingerprint.slurm_conf import SlurmConf, read_slurm_conf
from lockstep.node.readers.reading import Unread
from tests.node.fingerprint.conftest import Root

CONF = "/etc/slurm/slurm.conf"


def parsed(root: Root, text: str) -> SlurmConf:
    root.file(CONF, text)
    return read_slurm_conf(CONF)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", ["a"]),
        ("a,b", ["a", "b"]),
        ("n[08-10,7]", ["n08", "n09", "n10", "n7"]),
        ("r[1-2]n[1-2]x", ["r1n1x", "r1n2x", "r2n1x", "r2n2x"]),
        ("gpu-[1-2],head", ["gpu-1", "gpu-2", "head"]),
        ("", []),
    ],
)
def test_a_list_is_expanded(text: str, names: list[str]) -> None:
    assert expand(text) == names
    assert sorted(expand(fold(names))) == sorted(names)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["n3", "n1", "n2", "n9"], "n[1-3,9]"),
        (["n9", "n10"], "n[9-10]"),
        (["n08", "n09", "n8"], "n8,n[08-09]"),
        (["a", "n1"], "a,n1"),
        (["r1-ib", "r2-ib"], "r[1-2]-ib"),
    ],
)
def test_names_are_folded(names: list[str], text: str) -> None:
    assert fold(names) == text
    assert sorted(expand(text)) == sorted(names)


def test_a_range_without_numbers_is_refused(root: Root) -> None:
    with pytest.raises(ValueError, match=r"n\[a-b\]"):
        expand("n[a-b]")
    with pytest.raises(Unread, match=r"NodeName=n\[a-b\]"):
        _ = parsed(root, "NodeName=n[a-b] CPUs=2\n").nodes


def test_comments_continued_lines_and_quotes(root: Root) -> None:
    conf = parsed(
        root,
        "# all\nKillWait = 60 # seconds\nClusterName=a\\#b\n"
        'InteractiveStepOptions="--pty --x y"\nNodeName=w[1-2] \\\n Weight=2 \\\n'
        "  Gres=gpu:8\nPrologFlags=Alloc\r\nDebugFlags+=Gres\n",
    )
    assert conf.settings["killwait"] == "60"
    assert conf.settings["clustername"] == "a#b"
    assert conf.settings["interactivestepoptions"] == "--pty --x y"
    assert conf.settings["prologflags"] == "Alloc"
    assert conf.settings["debugflags"] == "Gres"
    assert conf.nodes["w2"] == {"weight": "2", "gres": "gpu:8"}
    assert conf.names["killwait"] == "KillWait"


def test_keys_that_appear_several_times(root: Root) -> None:
    conf = parsed(root, "SlurmctldHost=a\nSlurmctldHost=b\nslurmctldhost=c(1.2.3.4)\n")
    assert conf.lists["slurmctldhost"] == ["a", "b", "c(1.2.3.4)"]
    assert conf.settings["slurmctldhost"] == "c(1.2.3.4)"


def test_defaults_hold_for_the_lines_below(root: Root) -> None:
    conf = parsed(
        root,
        "NodeName=a\nNodeName=DEFAULT Weight=2 CPUs=4\nNodeName=b\nNodeName=default Weight=3\n"
        "NodeName=c CPUs=8\nPartitionName=Default Hidden=YES ExclusiveUser=YES\nPartitionName=p\n",
    )
    assert conf.nodes["a"] == {}
    assert conf.nodes["b"] == {"weight": "2", "cpus": "4"}
    assert conf.nodes["c"] == {"weight": "3", "cpus": "8"}
    assert conf.partitions == {"p": {"hidden": "YES"}}


def test_addresses_belong_to_the_names_in_their_order(root: Root) -> None:
    conf = parsed(root, "NodeName=w[1-2] NodeAddr=10.0.0.[11-12] NodeHostname=x\n")
    assert conf.nodes["w2"] == {"nodeaddr": "10.0.0.12", "nodehostname": "x"}


def test_included_files(root: Root) -> None:
    root.file("/etc/slurm/c1.conf", "KillWait=7\nInclude /srv/more\n")
    root.file("/srv/more", "WaitTime=8\n")
    conf = parsed(root, "ClusterName=c1\nINCLUDE   %c.conf\n")
    assert (conf.settings["killwait"], conf.settings["waittime"]) == ("7", "8")
    assert conf.files == [CONF, "/etc/slurm/c1.conf", "/srv/more"]


def test_an_included_file_that_is_missing_or_includes_itself(root: Root) -> None:
    with pytest.raises(Unread, match=r"nodes\.conf"):
        parsed(root, "Include nodes.conf\n")
    with pytest.raises(Unread, match="include each other"):
        parsed(root, "Include slurm.conf\n")
