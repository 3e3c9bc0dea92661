"""The deploys that pyinfra runs. They apply roles in phases, which are separated by barriers."""

from pathlib import Path

from pyinfra import local

if __name__ != "lockstep.deploys":
    # Under a second name, Python would load every module twice, with two registries of operations.
    raise ImportError("import this package as lockstep.deploys, not as deploys")


def include(deploy: str) -> None:
    """Run one of Lockstep's deploys, such as "worker", as a part of a site's own deploy.

    Raises:
        FileNotFoundError: there is no such deploy.
    """
    local.include(str(Path(__file__).resolve().with_name(f"{deploy}.py")))
