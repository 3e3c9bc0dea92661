"""Programs in the packages of the lab's repository: never imported."""
