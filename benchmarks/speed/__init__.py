"""Measures reruns, checks, deploys and repairs, compared with other tools on the same nodes."""
