"""Reboot the nodes that need it, workers a few at a time."""

from lockstep.deploys import include

include("reboot")
