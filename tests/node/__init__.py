"""Tests of what runs on a node."""
