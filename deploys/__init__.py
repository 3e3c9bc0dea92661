"""The deploys that pyinfra runs: they apply roles, with barriers between them."""

if __name__ != "lockstep.deploys":
    # Under a second name, Python would load every module twice, with two registries of operations.
    raise ImportError("import this package as lockstep.deploys, not as deploys")
