"""Deploy the head."""

from lockstep.deploys import include

include("head")
