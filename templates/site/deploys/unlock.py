"""Break the lock of a run that was ended on another machine."""

from lockstep.deploys import include

include("unlock")
