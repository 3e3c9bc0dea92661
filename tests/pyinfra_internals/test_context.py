"""Objects of pyinfra's context have the attributes of what they stand for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyinfra.api import Host
from pyinfra.context import ContextManager, LocalContextObject

from lockstep.pyinfra_internals.pyinfra_functions import attribute

manager_of: Any = ContextManager  # pyinfra's, without types


def test_a_context_has_what_it_stands_for_and_without_it_what_its_class_has() -> None:
    context = manager_of("host", LocalContextObject)
    context.set_base(Host)
    assert attribute(context.context, "connected") is False
    context.set(SimpleNamespace(connected="yes"))
    assert attribute(context.context, "connected") == "yes"
    with pytest.raises(AttributeError, match="missing"):
        attribute(context.context, "missing")
