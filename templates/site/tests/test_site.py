"""What our site adds to Lockstep. These tests need no node."""

from pathlib import Path

from lockstep.files import managed
from lockstep.inventory import load

PROD = str(Path(__file__).resolve().parents[1] / "inventories" / "prod.py")


def test_workers_have_the_notice_and_heads_do_not() -> None:
    nodes = load(PROD).nodes
    (notice,) = managed(nodes["worker1"], None, "login_notice")
    assert notice.path == "/etc/motd.d/50-site"
    assert "login_notice" not in nodes["head1"].roles
