"""Steps that are not roles: the barrier, the removal and the rolling reboot."""
