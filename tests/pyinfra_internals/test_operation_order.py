"""Operations have the order that pyinfra gives them."""

from __future__ import annotations

from pathlib import Path

from tests.fast.runs import Machine

ORDERS = """
from pyinfra import state
from pyinfra.api import deploy
from pyinfra.api.util import get_operation_order_from_stack
from lockstep.pyinfra_internals.pyinfra_functions import operation_order

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


def test_operations_have_the_order_that_pyinfra_gives_them(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    said = machine.deploy(ORDERS, "--dry").said
    assert said.count("order [0, ") == 2
