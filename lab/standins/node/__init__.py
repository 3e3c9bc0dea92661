"""Programs that a node runs: copied to its disk, never imported."""
