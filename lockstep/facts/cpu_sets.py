"""Which CPUs the services of a node may use, as the kernel has it."""

from __future__ import annotations

from lockstep.facts.reading import Question, Taken


def cpus_of_services() -> Question[dict[str, frozenset[str]]]:
    """Ask for the CPU lists of the processes of each service, and of all logins, by their group."""

    def answer(taken: Taken) -> dict[str, frozenset[str]]:
        return {group: frozenset(lists) for group, lists in taken["cpuset.groups"].items()}

    return Question("CPUs of services", ("cpuset.groups",), answer)


def cpus_of_systemd() -> Question[str]:
    """Ask for the CPUs of PID 1, which it hands on to whatever it starts."""
    return Question(
        "CPUs of systemd", ("cpuset.manager",), lambda taken: str(taken["cpuset.manager"])
    )
