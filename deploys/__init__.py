"""Deploys: the order of roles and barriers, for pyinfra."""

if __name__ != "lockstep.deploys":
    # One module under two names would be two modules: two operations, two registries.
    raise ImportError("import it as lockstep.deploys: deploys/ is that package")
