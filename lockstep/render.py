"""Template plus values gives text: the only user of jinja2.

Roles and checks call the same function, so what is written and what is expected cannot differ.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # configuration files, not markup
    )


def render(template: str, **values: object) -> str:
    """Return the text of ``templates/<template>`` filled with the values.

    Raises:
        jinja2.UndefinedError: the template names a value that was not given.
    """
    return _environment().get_template(template).render(**values)
