"""The fast path gives what plain pyinfra gives."""
