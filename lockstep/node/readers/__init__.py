"""Takes a node's readings and prints a record. Standard library only, Python 3.9+, read-only.

The program is sent to the node as text and runs as root. It installs nothing and writes nothing.
A request names the objects to read (paths, units, keys). It contains no expected values.
A reading that cannot be taken is recorded as ``{"unread": reason}``, never left out.
Each command has a timeout, after which it is killed with its children. Readers run in parallel,
so if nvidia-smi hangs, it delays only its own readings, and only once.
The program runs at idle priority on the housekeeping CPUs that the request names.
"""
