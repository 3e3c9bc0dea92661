"""Recorded answers of real GPUs, played to the probe, the check and the node check."""
