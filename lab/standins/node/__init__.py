"""Programs that nodes run: copied to their disks, never imported."""
