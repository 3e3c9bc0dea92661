"""What can go wrong in the lab, said so that the reader knows where, what and what to do next."""


class LabError(Exception):
    """A failure of the lab: the problem (place, value, what was expected) and the next command."""

    exit_status = 1

    def __init__(self, problem: str, next_step: str | None = None) -> None:
        """Keep both halves; ``str()`` gives them as one message."""
        self.problem = problem
        self.next_step = next_step
        super().__init__(problem if next_step is None else f"{problem}\n  next: {next_step}")


class WrongUseError(LabError):
    """The caller asked for something that does not exist or is not allowed (exit status 3)."""

    exit_status = 3


class LockHeldError(LabError):
    """Another lab command is at work on the same thing."""


class LabNotUp(LabError):
    """There is no lab of that name, or its creation did not finish."""


class InterruptedUp(BaseException):
    """SIGTERM or SIGHUP arrived; unwinds like KeyboardInterrupt, so that up cleans up."""
