"""Tests that boot machines, and of the lab itself."""
