"""Roles of our site, beside Lockstep's."""
