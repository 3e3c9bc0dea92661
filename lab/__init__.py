"""Real test machines for Lockstep: booted Debian systems with a network of their own."""
