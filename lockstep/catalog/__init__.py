"""Facts about the world, not about a cluster: one data file per GPU model and operating system."""
