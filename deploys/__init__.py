"""The deploys that pyinfra runs. They apply roles in phases, which are separated by barriers."""

if __name__ != "lockstep.deploys":
    # Under a second name, Python would load every module twice, with two registries of operations.
    raise ImportError("import this package as lockstep.deploys, not as deploys")
