"""History of records and findings: one SQLite file per cluster, on the control host."""
