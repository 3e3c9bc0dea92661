"""Operations of roles: they compare what is on a node with the plan and change what differs."""
