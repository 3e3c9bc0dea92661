"""The programs that run on a node: the readers and the node check.

They need only Python 3.9 or newer and its standard library.
"""
