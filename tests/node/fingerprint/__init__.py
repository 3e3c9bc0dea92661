"""Tests of the fingerprint."""
