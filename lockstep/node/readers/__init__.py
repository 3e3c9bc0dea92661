"""Reads one node and prints one record. Standard library only, Python 3.9 or newer, read-only.

The program is sent to the node as text and runs as root. It installs nothing and writes nothing.
A request names the objects to read (paths, units, keys). It contains no expected values.
A reading that cannot be taken is ``{"unread": reason}``; none is left out.
Each command has a time-out, after which it is killed with its children. Readers run in parallel,
so nvidia-smi, when it hangs, delays only its own readings, and only once.
The program runs at idle priority on the housekeeping CPUs of the request.
"""
