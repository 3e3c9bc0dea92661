"""Faster versions of functions in pyinfra and gevent, with the same results.

``registry.py`` lists them. With ``LOCKSTEP_FAST=0``, the original functions run. ``ssh_client`` and
``progress`` are not about speed, and always apply.
"""
