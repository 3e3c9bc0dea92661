"""What each function that Lockstep replaces in pyinfra saves of a run."""
