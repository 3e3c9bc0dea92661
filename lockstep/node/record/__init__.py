"""The probe's program: everything that a check reads on a node."""
