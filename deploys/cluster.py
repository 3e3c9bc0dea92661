"""The whole cluster: heads first, then the workers that depend on them."""

from pyinfra import local

from roles import barrier

local.include("./head.py")
barrier.reached(name="Heads are done")
local.include("./worker.py")
