"""Snapshots of everything that a description needs, for sites without access to the internet.

``needs`` says what a plan needs; ``apt`` asks and copies apt's repositories; ``wheels`` copies
Lockstep's own Python packages; ``snapshot`` puts all of it in a folder.
"""
