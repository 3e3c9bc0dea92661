"""Programs in the simulated packages of the lab's repository; never imported."""
