"""Template plus values gives text: the only user of jinja2.

Roles and checks call the same function, so what is written and what is expected cannot differ.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"
PAGES = Path(__file__).resolve().parent / "forms"


@cache
def _environment(folder: Path, *, markup: bool) -> Environment:
    return Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=markup,
        auto_reload=False,
    )


@cache
def _template(folder: Path, name: str, *, markup: bool) -> Template:
    return _environment(folder, markup=markup).get_template(name)


def render(template: str, **values: object) -> str:
    """Return the text of ``templates/<template>`` filled with the values.

    Raises:
        jinja2.UndefinedError: the template names a value that was not given.
    """
    return _template(TEMPLATES, template, markup=False).render(**values)


def page(template: str, **values: object) -> str:
    """Return the text of ``forms/<template>``, a page of HTML: every value is escaped.

    Raises:
        jinja2.UndefinedError: the template names a value that was not given.
    """
    return _template(PAGES, template, markup=True).render(**values)
