"""What a rerun, a check, a deploy and a repair cost, beside the peers on the same nodes."""
