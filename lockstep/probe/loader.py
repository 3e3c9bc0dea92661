"""Creates the probe's modules from their source text, so that no files are copied to a node.

The program that is sent to a node begins with this module, which must therefore run on Python 3.9
and import only the standard library.

Compiling all modules takes 0.08 s of CPU time. A node that Lockstep deploys keeps the compiled
modules.
"""

from __future__ import annotations

import base64
import hashlib
import json
import marshal
import sys
import zlib
from collections.abc import Iterable, Mapping
from types import CodeType, ModuleType
from typing import Any

COMPILED = "compiled"
"""Name of the file with the compiled modules."""
DIGEST = hashlib.sha256().digest_size


class Late(ModuleType):
    """A module that runs when something of it is used: many nodes need none of these."""

    def __init__(self, name: str, code: CodeType | str) -> None:
        """Note the code, or the text that is to be compiled."""
        super().__init__(name)
        self.__dict__["__late__"] = code

    def __getattr__(  # type: ignore[explicit-override]  # nodes have no typing_extensions
        self, name: str
    ) -> Any:
        """Run the module first, unless Python itself asks about it."""
        code = None if name.startswith("__") else self.__dict__.pop("__late__", None)
        if code is None:
            raise AttributeError(f"module {self.__name__} has no {name}")
        exec(compile_module(self.__name__, code) if isinstance(code, str) else code, vars(self))
        return getattr(self, name)


def run(texts: dict[str, str], start: str, late: Iterable[str] = ()) -> None:
    """Create the modules in the given order, imported modules first, and run one of them.

    Args:
        texts: name -> text of a module.
        start: the module to run.
        late: those that are compiled only when they are used.
    """
    _create(_compiled(texts, late), late)
    sys.modules[start].main()


def run_kept(first: dict[str, str], packed: str, start: str, late: Iterable[str] = ()) -> None:
    """Create modules and run one of them; keep the compiled modules if Lockstep deploys this node.

    Args:
        first: the module ``lockstep.node.readers.kept`` and those that it imports.
        packed: all modules, as the argument ``texts`` of ``run``: JSON, compressed and in base64.
        start: the module to run.
        late: those that run only when they are used.
    """
    _create(_compiled(first))
    from lockstep.node.readers.kept import keep, kept, may_keep

    # Another Python, even another build of it, may have other byte code.
    key = hashlib.sha256(f"{sys.version}\0{packed}".encode()).digest()
    data = kept(COMPILED)
    content = data[2 * DIGEST :]
    if data[: 2 * DIGEST] == key + hashlib.sha256(content).digest():
        modules: dict[str, CodeType | str] = marshal.loads(content)  # noqa: S302  # root's own
    else:
        texts = json.loads(zlib.decompress(base64.b64decode(packed)))
        modules = _compiled(texts, () if may_keep() else late)
        if may_keep():
            content = marshal.dumps(modules)
            keep(COMPILED, key + hashlib.sha256(content).digest() + content)
    _create(modules, late)
    sys.modules[start].main()


def compile_module(name: str, text: str) -> CodeType:
    """Compile a module. Tracebacks show the file name."""
    return compile(text, name.replace(".", "/") + ".py", "exec", dont_inherit=True)


def _compiled(texts: dict[str, str], late: Iterable[str] = ()) -> dict[str, CodeType | str]:
    return {
        name: text if name in late else compile_module(name, text) for name, text in texts.items()
    }


def _create(modules: Mapping[str, CodeType | str], late: Iterable[str] = ()) -> None:
    for name, code in modules.items():
        if name in late or isinstance(code, str):
            sys.modules[name] = Late(name, code)
        else:
            module = sys.modules[name] = ModuleType(name)
            exec(code, vars(module))
