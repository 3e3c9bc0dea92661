"""Deploy the heads: Lockstep's roles and ours, then ours.py."""

from pathlib import Path

from pyinfra import local

from lockstep.deploys import include

include("head")
local.include(str(Path(__file__).resolve().with_name("ours.py")))
