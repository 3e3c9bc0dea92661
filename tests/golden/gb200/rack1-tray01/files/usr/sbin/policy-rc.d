#!/bin/sh
# Managed by Lockstep: edits are overwritten. Change the inventory and deploy again.
# invoke-rc.d(8): 101 forbids the action, 0 allows it. While Lockstep installs packages, they
# must not start services before these are configured; at other times, packages behave as
# usual.
if [ -n "$LOCKSTEP_DEFER_START" ]; then exit 101; fi
exit 0
