"""Faster versions of functions in pyinfra and gevent, with the same results.

``registry.py`` has the table. With ``LOCKSTEP_FAST=0`` the original functions run. ``jump_host`` is
not about speed and always applies.
"""
