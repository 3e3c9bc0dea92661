"""What a reading that failed is: never an answer, least of all "absent"."""


class Unreadable(Exception):
    """Something on a node could not be read. The operation that needs it fails on its own host."""

    def __init__(self, what: str, why: str) -> None:
        """Take the name of the reading, and the reason.

        Args:
            what: the reading: ``Packages``, ``the time servers``.
            why: what happened, without the name of the node: ``connection lost: ...``.
        """
        super().__init__(f"{what} could not be read: {why}")
        self.what = what
        self.why = why
