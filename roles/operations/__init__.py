"""Operations of roles: each compares a node with the plan and changes what differs."""
