"""Reads one node and prints one record. Standard library only, Python 3.9 or newer, read-only.

Runs on the node as root, shipped as text; nothing is installed there and nothing is written.
The request holds names only (paths, units, keys), never a value that is hoped for.
Unread   every reading that cannot be taken is ``{"unread": reason}``; none is left out.
Slow     each command has its own time-out and is ended with its children; readers run side by
         side, so that a hanging nvidia-smi costs its own readings and nothing else, and that once.
Aside    at idle priority, on the CPUs that the request names as not the jobs'.
"""
