"""Names of the nodes in /etc/hosts."""

import pytest

from lockstep.files import managed
from tests.plan.example import planned
from tests.spec.example import description


@pytest.mark.parametrize(
    ("domain", "names"), [(None, "worker1"), ("gpu.example.net", "worker1.gpu.example.net worker1")]
)
def test_the_fully_qualified_name_comes_first(domain: str | None, names: str) -> None:
    """hosts(5): the first name is the canonical one, which ``hostname -f`` prints."""
    plan = planned(lambda wanted: wanted.update({**description(), "domain": domain}))
    node = plan.nodes["head1"]
    files = {one.path: one.content.decode() for one in managed(node, None, "os_settings")}
    lines = files["/etc/hosts"].splitlines()
    assert f"{plan.nodes['worker1'].address} {names}" in lines
