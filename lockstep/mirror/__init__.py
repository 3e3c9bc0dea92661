"""Snapshots of everything that a description needs, for sites without access to the internet.

``needs`` says what a plan needs; ``apt`` and ``dnf`` ask and copy repositories (``root``);
``wheels`` copies Lockstep's own Python packages; ``snapshot`` puts all of it in a folder.
"""
