"""Upgrade Kubernetes to the version of the description: heads first, then the workers."""

from lockstep.deploys import include

include("upgrade")
