"""Lines, and whole files, of the site in files that Lockstep writes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from lockstep.spec.fields import Model

Line = Annotated[str, StringConstraints(pattern=r"\S", max_length=4096)]
WholeFile = Annotated[str, StringConstraints(pattern=r"\S", max_length=1 << 20)]


class SiteFile(Model):
    """What the site wants of a file that Lockstep writes; one of the two fields."""

    lines: tuple[Line, ...] = ()
    """Lines that follow Lockstep's own. A line that sets what one of these sets is refused."""
    content: Annotated[WholeFile | None, Field(repr=False)] = None
    """The whole file in place of Lockstep's, such as ``Path("slurm.conf").read_text()``. The
    program that checks Lockstep's file before it is written checks this one."""
