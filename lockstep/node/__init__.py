"""What runs on a node: readers and the node's own check. Python 3.9, standard library only."""
