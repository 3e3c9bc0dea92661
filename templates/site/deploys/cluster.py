"""Deploy the whole cluster, heads first: Lockstep's roles and ours, then ours.py."""

from pathlib import Path

from pyinfra import local

from lockstep.deploys import include

include("cluster")
local.include(str(Path(__file__).resolve().with_name("ours.py")))
