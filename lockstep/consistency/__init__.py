"""The check as tests: ``pytest --pyargs lockstep.consistency --inventory INVENTORY``."""
