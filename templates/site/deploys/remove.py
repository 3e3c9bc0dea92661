"""Remove what Lockstep wrote and what is no longer in the plan."""

from lockstep.deploys import include

include("remove")
