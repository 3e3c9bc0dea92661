"""What replaces functions of pyinfra does what they do, and only while they are those."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyinfra.api import Config, Host, Inventory, State, arguments, util
from pyinfra.api.exceptions import ArgumentTypeError
from pyinfra.context import ContextManager, LocalContextObject, ctx_config

from lockstep.fast import leaner
from tests.fast.runs import Machine

# pyinfra's, without types.
config_of: Any = Config
inventory_of: Any = Inventory
manager_of: Any = ContextManager
own_config: Any = ctx_config

ORDERS = """
from pyinfra import state
from pyinfra.api import deploy
from pyinfra.api.util import get_operation_order_from_stack
from lockstep.fast.leaner import operation_order

def reached():
    return [order(state) for order in (get_operation_order_from_stack, operation_order)]

@deploy("Nested")
def nested():
    for both in (reached(), reached()):
        assert both[0] == both[1] and len(both[0]) > 2, both
        host.log(f"order {both[1]}")
nested()
state.current_deploy_filename, before = "elsewhere.py", state.current_deploy_filename
assert reached() == [[0], [0]], reached()
state.current_deploy_filename = None
both = reached()
assert both[0] == both[1], both
state.current_deploy_filename = before
"""


@pytest.mark.parametrize("patch", leaner.PATCHES, ids=lambda patch: patch.function.__name__)
def test_pyinfra_has_the_function_that_is_replaced(patch: leaner.Patch) -> None:
    """Fails with another pyinfra: read what its function does now, then change or drop ours."""
    assert patch.fits
    for place in patch.places:
        now = vars(leaner.place_of(place))[patch.function.__name__]
        assert now in (patch.function, patch.instead)


def test_another_pyinfra_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    patch = replace(leaner.PATCHES[0], source_sha256="of another version")
    module = leaner.place_of(patch.places[0])
    monkeypatch.setattr(module, patch.function.__name__, patch.function)
    monkeypatch.setattr(leaner, "PATCHES", (patch,))
    leaner.patch.__wrapped__()
    assert getattr(module, patch.function.__name__) is patch.function


def test_operations_have_the_order_that_pyinfra_gives_them(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    said = machine.deploy(ORDERS, "--dry").said
    assert said.count("order [0, ") == 2


def test_the_global_arguments_are_those_of_pyinfra() -> None:
    assert leaner.global_arguments() == arguments.all_global_arguments()
    assert leaner.global_arguments() is leaner.global_arguments()
    assert util.PYINFRA_INSTALL_DIR


def _popped(pop: Any, host: Host, given: dict[str, Any]) -> object:
    kwargs = dict(given)
    try:
        return pop(host.state, host, kwargs), kwargs
    except ArgumentTypeError as error:
        return str(error)


@pytest.mark.parametrize("of_config", [{}, {"SUDO": True, "TEMP_DIR": "/t", "ENV": {"A": "1"}}])
@pytest.mark.parametrize("of_deploy", [None, {}, {"_sudo": False, "_env": {"B": "2"}}])
@pytest.mark.parametrize(
    "of_host", [{}, {"_sudo": True, "_timeout": "wrong", "_env": {"C": "3"}, "mine": 1}]
)
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"name": "N", "own": 1},
        {"_sudo": True, "_env": {"D": "4"}, "_if": [bool], "_success_exit_codes": [0, 1]},
        {"_sudo": "yes"},
        {"_timeout": 1, "_sudo_user": 7, "_su_user": 8},
        {"_retries": True, "_chdir": None},
        {"_success_exit_codes": ["0"]},
    ],
    ids=lambda given: "+".join(given) or "nothing",
)
def test_global_arguments_are_taken_as_pyinfra_takes_them(
    given: dict[str, Any],
    of_host: dict[str, Any],
    of_deploy: dict[str, Any] | None,
    of_config: dict[str, Any],
) -> None:
    host = _host()
    host.host_data.update(of_host)
    host.current_deploy_kwargs = of_deploy  # type: ignore[assignment]  # some of them
    for own in (False, True):  # a configuration of its own, as in a deploy, and then changed
        config = config_of(**of_config)
        if own:
            own_config.set(config)
        else:
            host.state.config = config
        try:
            for folder in (of_config.get("TEMP_DIR"), "/changed"):
                config.TEMP_DIR = folder
                ours, theirs = (
                    _popped(pop, host, given)
                    for pop in (leaner.pop_global_arguments, arguments.pop_global_arguments)
                )
                assert ours == theirs
        finally:
            own_config.reset()


def test_each_operation_has_lists_of_its_own() -> None:
    host = _host()
    host.state.config = config_of()
    first, second = (leaner.pop_global_arguments(host.state, host, {})[0] for _ in range(2))
    for name, value in first.items():
        assert value is not second[name] or not isinstance(value, list | dict), name


def test_a_type_is_wrong_also_where_an_equal_value_had_the_right_one() -> None:
    host = _host()
    assert _popped(leaner.pop_global_arguments, host, {"_sudo": True}) != (
        wrong := _popped(arguments.pop_global_arguments, host, {"_sudo": 1})
    )
    assert isinstance(wrong, str)
    assert _popped(leaner.pop_global_arguments, host, {"_sudo": 1}) == wrong


def _host() -> Host:
    inventory = inventory_of((["@local"], {}))
    State(inventory, config_of())
    host = inventory.get_host("@local")
    assert isinstance(host, Host)
    return host


class _Fact:
    def command(self, path: str, *more: str, depth: int = 1, **other: str) -> None: ...

    @staticmethod
    def alone(path: str = "/") -> None: ...


@pytest.mark.parametrize("of", ["command", "alone"])
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ((), {}),
        (("/a",), {}),
        (("/a", "/b"), {"depth": 2}),
        ((), {"path": "/a", "function": "x"}),
        (("/a",), {"path": "/b"}),
    ],
)
def test_arguments_of_a_call_have_the_names_that_python_gives_them(
    given: tuple[str, ...], named: dict[str, Any], of: str
) -> None:
    fact = _Fact()
    try:
        expected = inspect.getcallargs(getattr(fact, of), *given, **named)
    except TypeError:
        with pytest.raises(TypeError):
            leaner.call_arguments(getattr(fact, of), *given, **named)
    else:
        assert leaner.call_arguments(getattr(fact, of), *given, **named) == expected


def test_a_context_has_what_it_stands_for_and_without_it_what_its_class_has() -> None:
    context = manager_of("host", LocalContextObject)
    context.set_base(Host)
    assert leaner.attribute_of_context(context.context, "connected") is False
    context.set(SimpleNamespace(connected="yes"))
    assert leaner.attribute_of_context(context.context, "connected") == "yes"
    with pytest.raises(AttributeError, match="missing"):
        leaner.attribute_of_context(context.context, "missing")


def test_what_was_imported_is_not_looked_through_for_garbage(tmp_path: Path) -> None:
    counts = (
        "import gc; host.log(f'frozen: {gc.get_freeze_count() > 0}, {gc.get_threshold()[0]}')\n"
    )
    assert "frozen: True, 20000" in Machine(tmp_path).deploy(counts, "--dry").said


@pytest.mark.parametrize(("unwanted", "kept"), [("", True), ("1", False)])
def test_modules_of_a_deploy_are_compiled_once_unless_python_was_told_otherwise(
    unwanted: str, kept: bool, tmp_path: Path
) -> None:
    machine = Machine(tmp_path)
    (tmp_path / "imported.py").write_text("")
    machine.deploy("import imported\n", "--dry", PYTHONDONTWRITEBYTECODE=unwanted)
    assert (tmp_path / "__pycache__").is_dir() is kept
