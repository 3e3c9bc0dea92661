"""The probe as a pyinfra fact: one execution, one typed record of one host."""

from __future__ import annotations

from pyinfra.api.exceptions import FactProcessError
from pyinfra.api.facts import FactBase
from typing_extensions import override

from lockstep.probe.lines import ProbeFormatError
from lockstep.probe.parse import parse
from lockstep.probe.record import Record
from lockstep.probe.ship import Request, command


class NodeProbe(FactBase[Record | None]):
    """Everything that is read from a node.

    Facts are not cached: a deploy asks once and hands the record on. None means the node could
    not be read, which is never the same as a node without GPUs.
    """

    @staticmethod
    @override
    def default() -> Record | None:
        """Return what stands for an unread node."""
        return None

    @override
    def command(
        self,
        files: tuple[str, ...] = (),
        units: tuple[str, ...] = (),
        sysctls: tuple[str, ...] = (),
        kernel_files: tuple[str, ...] = (),
        listeners: tuple[str, ...] = (),
    ) -> str:
        """Return the probe's command."""
        return command(
            Request(
                files=tuple(files),
                units=tuple(units),
                sysctls=tuple(sysctls),
                kernel_files=tuple(kernel_files),
                listeners=tuple(listeners),
            )
        )

    @override
    def process(self, output: list[str]) -> Record | None:
        """Return the record; any other exception would end the run for every host."""
        try:
            return parse("\n".join(output))
        except ProbeFormatError as error:
            raise FactProcessError(f"probe: {error}") from error
