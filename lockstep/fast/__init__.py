"""The same deploy with fewer round trips: pyinfra's ssh connector, reading facts ahead.

Nothing here decides what is done to a node. ``LOCKSTEP_FAST=0`` leaves pyinfra as it is, one
execution per fact; only the connector stays ours, because it keeps the failure of a node to itself.
"""

from lockstep.fast_path import inventory_name as inventory_name
from lockstep.fast_path import wanted as wanted
