"""Compares the fingerprints of nodes that must be equal, and decides which node is right.

``places`` finds where the sums of nodes differ, ``objects`` compares the fields that a further
question brought, ``decide`` names the right value and its source, ``findings`` reports it.
"""
