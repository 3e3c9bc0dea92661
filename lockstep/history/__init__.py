"""What was read and found before: one SQLite file per cluster, on the deploying side."""
