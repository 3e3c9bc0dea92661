"""Programs that simulate, on lab nodes, hardware and packages that a lab does not have."""
