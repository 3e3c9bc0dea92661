"""The probe over pyinfra's connections: as a fact of one host, and of all nodes at once."""
