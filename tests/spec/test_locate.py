"""The lines of fields in inventories."""

from lockstep.spec.locate import line_of

FIELDS = frozenset({"name", "hardware", "nodes", "os"})

NAMED = """\
_limits = {"name": "not the cluster", "hardware": None}
_base = {"sockets": 1}
_hgx = {
    **_base,
    "memory_mib": 1,
}
_hgx_twice = {"sockets": 1}
_hgx_twice = {**_hgx_twice, "memory_mib": 2}
_cluster = plan_or_exit(
    {
        "name": "x",
        "hardware": {
            "a": _hgx,
            "b": {"sockets": 1,
                  "sockets": 2},
            "c": make(),
            "d": _hgx_twice,
        },
        "nodes": [
            {"name": "first"},
            *more(),
            {"name": "nobody knows which"},
        ],
    },
    __file__,
)
"""


def line(*path: str | int) -> int | None:
    return line_of(NAMED, path, FIELDS)


def test_the_description_is_the_dictionary_with_most_of_the_fields() -> None:
    assert line("name") == 11


def test_a_name_of_the_file_is_followed() -> None:
    assert line("hardware", "a", "memory_mib") == 5


def test_a_spread_is_followed() -> None:
    assert line("hardware", "a", "sockets") == 2


def test_a_name_given_twice_is_not_followed() -> None:
    assert line("hardware", "d", "memory_mib") == 17


def test_of_a_key_written_twice_the_last_counts() -> None:
    assert line("hardware", "b", "sockets") == 15


def test_what_is_not_written_has_the_line_of_what_holds_it() -> None:
    assert line("hardware", "c", "sockets") == 16
    assert line("hardware", "e") == 12
    assert line("os") == 10
    assert line() == 10


def test_behind_a_starred_element_the_line_is_the_list() -> None:
    assert line("nodes", 0, "name") == 20
    assert line("nodes", 1, "name") == 19
    assert line("nodes", 2, "name") == 19
    assert line("nodes", 9, "name") == 19


def test_a_file_without_a_description_has_no_lines() -> None:
    assert line_of("x = 1\n", ("name",), FIELDS) is None
    assert line_of('x = {"colour": "red"}\n', ("name",), FIELDS) is None
