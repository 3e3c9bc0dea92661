"""Global arguments are taken as pyinfra takes them."""

from __future__ import annotations

from typing import Any

import pytest
from pyinfra.api import Config, Host, Inventory, State, arguments
from pyinfra.api.exceptions import ArgumentTypeError
from pyinfra.context import ctx_config

from lockstep.pyinfra_internals import pyinfra_functions as replaced

# pyinfra's, without types.
config_of: Any = Config
inventory_of: Any = Inventory
own_config: Any = ctx_config


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
                    for pop in (replaced.pop_global_arguments, arguments.pop_global_arguments)
                )
                assert ours == theirs
        finally:
            own_config.reset()


def test_each_operation_has_lists_of_its_own() -> None:
    host = _host()
    host.state.config = config_of()
    first, second = (replaced.pop_global_arguments(host.state, host, {})[0] for _ in range(2))
    for name, value in first.items():
        assert value is not second[name] or not isinstance(value, list | dict), name


def test_a_type_is_wrong_also_where_an_equal_value_had_the_right_one() -> None:
    host = _host()
    assert _popped(replaced.pop_global_arguments, host, {"_sudo": True}) != (
        wrong := _popped(arguments.pop_global_arguments, host, {"_sudo": 1})
    )
    assert isinstance(wrong, str)
    assert _popped(replaced.pop_global_arguments, host, {"_sudo": 1}) == wrong


def _host() -> Host:
    inventory = inventory_of((["@local"], {}))
    State(inventory, config_of())
    host = inventory.get_host("@local")
    assert isinstance(host, Host)
    return host
