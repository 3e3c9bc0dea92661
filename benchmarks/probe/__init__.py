"""What it costs a node to be read: seconds, CPU seconds and commands."""
