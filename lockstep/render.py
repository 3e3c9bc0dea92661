"""Renders templates; the only module that uses jinja2.

Roles and checks call the same function, so deployed and expected files are always the same.
"""

from __future__ import annotations

import os
import pickle
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path

import jinja2
from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from typing_extensions import override

TemplateError = jinja2.TemplateError
"""Base of the errors of a template, for callers that expect values that do not fit."""
TEMPLATES = Path(__file__).parent / "templates"
PAGES = Path(__file__).resolve().parent / "forms"
LAYOUT = 1
"""Version of the compiled templates; increase it when the options of ``_environment`` change."""


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
        bytecode_cache=_compiled(),
    )


@cache
def _compiled() -> _Compiled | None:
    """Return the cache of compiled templates; None if its folder cannot be used safely."""
    try:
        cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = cache_home / "lockstep" / f"jinja2-{jinja2.__version__}-{LAYOUT}"
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        found = [one.stat() for one in (folder.parent, folder)]
    except (OSError, RuntimeError):  # RuntimeError: the user has no home directory
        return None
    # The cached code is executed, possibly as root, so no other user may write to it.
    others = stat.S_IWGRP | stat.S_IWOTH
    own = all(one.st_uid == os.geteuid() and not one.st_mode & others for one in found)
    return _Compiled(str(folder)) if own and folder.is_absolute() else None


class _Compiled(FileSystemBytecodeCache):
    """A cache that ignores errors: if bytecode cannot be loaded, the template is compiled again."""

    @override
    def load_bytecode(self, bucket: Bucket) -> None:
        try:
            super().load_bytecode(bucket)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):  # a damaged file
            bucket.reset()

    @override
    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):  # disk full, or no write permission
            super().dump_bytecode(bucket)


def render(template: str, **values: object) -> str:
    """Render ``templates/<template>`` with the values.

    Raises:
        jinja2.UndefinedError: the template uses a value that was not passed.
    """
    return _environment(TEMPLATES, markup=False).get_template(template).render(**values)


def page(template: str, **values: object) -> str:
    """Render the HTML page ``forms/<template>``; every value is escaped.

    Raises:
        jinja2.UndefinedError: the template uses a value that was not passed.
    """
    return _environment(PAGES, markup=True).get_template(template).render(**values)
