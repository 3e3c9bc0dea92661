"""Tests of lockstep/pyinfra_internals."""
