import pytest

from lockstep.spec.names import cpulist, cpus, expand


def test_a_range_counts_with_its_zeros() -> None:
    assert expand("worker[08-11]") == ("worker08", "worker09", "worker10", "worker11")


def test_a_plain_name_is_itself() -> None:
    assert expand("head1") == ("head1",)


def test_a_range_that_is_not_finished_is_refused() -> None:
    with pytest.raises(ValueError, match="bracket"):
        expand("worker[1-4")


def test_a_group_is_not_looked_up_on_this_machine() -> None:
    assert expand("@all") == ("@all",)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("", set()), ("0", {0}), ("0-3,56", {0, 1, 2, 3, 56}), ("5,1-2", {1, 2, 5})],
)
def test_cpu_lists_are_read_and_written(text: str, numbers: set[int]) -> None:
    assert cpus(text) == numbers
    assert cpus(cpulist(numbers)) == numbers


def test_cpu_lists_are_written_as_linux_writes_them() -> None:
    assert cpulist([57, 0, 1, 2, 56]) == "0-2,56-57"
    assert cpulist([]) == ""


@pytest.mark.parametrize("text", ["x", "0-", "3-1", "-1", "[0", "0.5"])
def test_what_is_no_cpu_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        cpus(text)
