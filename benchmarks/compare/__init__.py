"""What it costs to compare many nodes: CPU seconds, memory, lines on the screen."""
