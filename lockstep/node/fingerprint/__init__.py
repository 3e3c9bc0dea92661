"""The fingerprint of a node: hashes of its whole configuration, by domain and object.

Every module here reads one or more domains; ``domains`` has the table. A domain yields *objects*
(a file, a package, a unit, an interface, ...) with *fields*. Equal nodes have equal hashes, so
fields travel only where hashes differ.
"""
