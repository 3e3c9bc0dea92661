"""Deploy the workers."""

from lockstep.deploys import include

include("worker")
