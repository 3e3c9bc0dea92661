"""The programs that run on a node: the readers and the node check.

They need Python 3.9 or newer, and only its standard library.
"""
