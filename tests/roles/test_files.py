"""Managed files on this machine: compared, replaced whole, and left alone if they are right."""

import os
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from pyinfra.context import ctx_host, ctx_state

from lockstep.facts.files import FileState, file_states
from lockstep.files import ManagedFile
from lockstep.roles.operations.files import managed_files
from tests.roles.local import asked, machine, run

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to root")


@pytest.fixture
def wanted(tmp_path: Path) -> ManagedFile:
    return ManagedFile(
        role="unit",
        path=str(tmp_path / "etc" / "unit.conf"),
        content=b"colour = red\n'quotes' \"$HOME\" `id` \xff\x00\n",
        mode="640",
        user="root",
        group="root",
        secret=False,
        validate="",
    )


def mode(path: str) -> str:
    return f"{stat.S_IMODE(Path(path).stat().st_mode):o}"


def leftovers(file: ManagedFile) -> list[str]:
    folder = Path(file.path).parent
    return sorted(set(os.listdir(folder)) - {Path(file.path).name}) if folder.exists() else []


def test_a_missing_file_is_written_with_its_mode_whatever_bytes_it_has(wanted: ManagedFile) -> None:
    done = run(managed_files, files=(wanted,))
    assert (done.succeeded, done.commands) == (True, 1)
    assert Path(wanted.path).read_bytes() == wanted.content
    assert mode(wanted.path) == "640"
    assert leftovers(wanted) == []


def test_the_second_run_does_nothing(wanted: ManagedFile) -> None:
    run(managed_files, files=(wanted,))
    before = Path(wanted.path).stat()
    done = run(managed_files, files=(wanted,))
    assert (done.succeeded, done.commands) == (True, 0)
    after = Path(wanted.path).stat()
    assert (after.st_ino, after.st_ctime_ns) == (before.st_ino, before.st_ctime_ns)


def test_only_the_file_that_differs_is_written(wanted: ManagedFile) -> None:
    other = replace(wanted, path=f"{wanted.path}.other", content=b"other\n")
    run(managed_files, files=(wanted, other))
    kept = Path(wanted.path).stat().st_ino
    Path(other.path).write_bytes(b"edited by hand\n")
    done = run(managed_files, files=(wanted, other))
    assert done.commands == 1
    assert Path(wanted.path).stat().st_ino == kept
    assert Path(other.path).read_bytes() == b"other\n"


@pytest.mark.parametrize("drift", ["mode", "owner", "content", "a link in its place"])
def test_drift_is_repaired(wanted: ManagedFile, drift: str, tmp_path: Path) -> None:
    run(managed_files, files=(wanted,))
    path = Path(wanted.path)
    if drift == "mode":
        path.chmod(0o666)
    elif drift == "owner":
        os.chown(path, 1, 1)
    elif drift == "content":
        path.write_bytes(b"colour = blue\n")
    else:
        path.unlink()
        (tmp_path / "elsewhere").write_bytes(wanted.content)
        path.symlink_to(tmp_path / "elsewhere")
    assert run(managed_files, files=(wanted,)).commands == 1
    assert path.read_bytes() == wanted.content
    assert not path.is_symlink()
    state = path.stat()
    assert (mode(wanted.path), state.st_uid, state.st_gid) == ("640", 0, 0)
    assert run(managed_files, files=(wanted,)).commands == 0


def test_a_candidate_that_its_program_refuses_leaves_the_old_file(wanted: ManagedFile) -> None:
    run(managed_files, files=(wanted,))
    bad = replace(wanted, content=b"colour = \n", validate="grep -q red {new}")
    done = run(managed_files, files=(bad,))
    assert not done.succeeded
    assert Path(wanted.path).read_bytes() == wanted.content
    assert leftovers(wanted) == []


def test_a_candidate_is_judged_before_it_is_in_place(wanted: ManagedFile) -> None:
    judged = replace(wanted, validate=f"test ! -e {wanted.path} && grep -q red {{new}}")
    assert run(managed_files, files=(judged,)).succeeded
    assert Path(wanted.path).read_bytes() == wanted.content


def test_a_refused_first_file_leaves_nothing(wanted: ManagedFile) -> None:
    done = run(managed_files, files=(replace(wanted, validate="false"),))
    assert not done.succeeded
    assert not Path(wanted.path).exists()
    assert leftovers(wanted) == []


def test_many_files_are_one_command_and_a_judge_reads_none_of_the_next(
    wanted: ManagedFile,
) -> None:
    reads = replace(wanted, validate="cat >/dev/null; grep -q red {new}")
    empty = replace(wanted, path=f"{wanted.path}.empty", content=b"")
    large = replace(wanted, path=f"{wanted.path}.large", content=bytes(range(256)) * 2000)
    assert run(managed_files, files=(reads, large, empty)).commands == 1
    for file in (reads, large, empty):
        assert Path(file.path).read_bytes() == file.content
    assert run(managed_files, files=(reads, large, empty)).commands == 0


def test_the_files_behind_a_refused_one_are_not_touched(wanted: ManagedFile) -> None:
    first = replace(wanted, path=f"{wanted.path}.first")
    later = replace(wanted, path=f"{wanted.path}.later")
    refused = replace(wanted, validate="false")
    done = run(managed_files, files=(first, refused, later))
    assert not done.succeeded
    assert f"not replaced: {wanted.path}" in done.output
    assert Path(first.path).read_bytes() == first.content
    assert not Path(refused.path).exists()
    assert not Path(later.path).exists()


def test_neighbours_with_one_judge_are_judged_at_once_and_none_is_there_before(
    wanted: ManagedFile, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    one = replace(wanted, validate=f"echo {{every_new}} >> {seen}; test ! -e {wanted.path}.second")
    files = tuple(replace(one, path=f"{wanted.path}{end}") for end in ("", ".second"))
    assert run(managed_files, files=files).succeeded
    assert seen.read_text() == " ".join(f"{file.path}.lockstep-new" for file in files) + "\n"
    assert [Path(file.path).read_bytes() for file in files] == [wanted.content] * 2


def test_one_that_is_refused_keeps_its_neighbours_from_being_replaced(wanted: ManagedFile) -> None:
    judge = "for f in {every_new}; do grep -q red $f || exit 1; done"
    first = replace(wanted, validate=judge)
    second = replace(first, path=f"{wanted.path}.second", content=b"blue")
    done = run(managed_files, files=(first, second))
    assert not done.succeeded
    assert f"not replaced: {first.path} {second.path}" in done.output
    assert not Path(first.path).exists()
    assert leftovers(first) == []


def test_the_candidate_can_be_read_by_its_owner_only_while_it_is_written(
    wanted: ManagedFile, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    secret = replace(wanted, mode="400", validate=f"stat -c %a {{new}} > {seen}")
    (command,) = commands(secret)
    assert command.index("umask 077") < command.index("base64 -d") < command.index("chown")
    assert run(managed_files, files=(secret,)).succeeded
    assert seen.read_text() == "400\n"


def test_the_folder_that_is_made_is_for_all_to_enter(wanted: ManagedFile) -> None:
    run(managed_files, files=(wanted,))
    assert mode(str(Path(wanted.path).parent)) == "755"


def test_every_folder_above_it_that_is_made_is_for_all_to_enter(
    wanted: ManagedFile, tmp_path: Path
) -> None:
    deep = replace(wanted, path=str(tmp_path / "local" / "libexec" / "unit.conf"))
    assert run(managed_files, files=(deep,)).succeeded
    assert mode(str(tmp_path / "local")) == "755"
    assert mode(str(tmp_path / "local" / "libexec")) == "755"


def test_no_files_no_commands() -> None:
    assert run(managed_files, files=()).commands == 0


def commands(*files: ManagedFile) -> list[str]:
    """The operation's commands as pyinfra prints them."""
    state = machine()
    (host,) = state.inventory
    with ctx_state.use(state), ctx_host.use(host):
        return [str(command) for command in managed_files._inner(files=files)]


def test_the_content_shows_in_no_command_line_and_no_output(
    wanted: ManagedFile, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # The validator runs while the content is on its way: it lists every process with arguments.
    listing = tmp_path / "processes"
    secret = replace(
        wanted,
        content=b"hunter2-hunter2-hunter2",
        secret=True,
        validate=f"ps -ww -eo args > {listing}",
    )
    assert run(managed_files, files=(secret,)).succeeded
    shown = listing.read_text(errors="replace")
    assert "unit.conf.lockstep-new" in shown  # the command itself is in the listing
    said = capfd.readouterr()
    Path(secret.path).unlink()
    for text in (shown, said.out, said.err, *commands(secret)):
        assert "hunter2" not in text
        assert "aHVudGVyMi1odW50ZXIyLWh1bnRlcjI" not in text  # the same in base64


def test_file_states_of_this_machine_are_what_stat_and_sha256sum_say(tmp_path: Path) -> None:
    plain = tmp_path / "with a blank"
    plain.write_text("x")
    plain.chmod(0o4755)
    link, folder = tmp_path / "link", tmp_path / "folder"
    link.symlink_to(plain)
    folder.mkdir()
    digest = subprocess.run(
        ["sha256sum", plain], capture_output=True, text=True, check=True
    ).stdout.split()[0]
    paths = tuple(str(path) for path in (plain, link, folder, tmp_path / "absent"))
    assert asked(file_states(paths)) == {
        paths[0]: FileState(digest, "4755", "root", "root"),
        paths[1]: None,
        paths[2]: None,
        paths[3]: None,
    }
