"""Programs that stand in, on lab nodes, for hardware and packages that a lab does not have."""
