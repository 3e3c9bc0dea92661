"""Steps of a deploy that are no roles: the barrier and the rolling reboot."""
