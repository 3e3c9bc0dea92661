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
from types import CodeType, ModuleType

COMPILED = "compiled"
"""Name of the file with the compiled modules."""
DIGEST = hashlib.sha256().digest_size


def run(texts: dict[str, str], start: str) -> None:
    """Create the modules in the given order, imported modules first, and run one of them."""
    _create(_compiled(texts))
    sys.modules[start].main()


def run_kept(first: dict[str, str], packed: str, start: str) -> None:
    """Create modules and run one of them; keep the compiled modules if Lockstep deploys this node.

    Args:
        first: the module ``lockstep.node.readers.kept`` and those that it imports.
        packed: all modules, as the argument ``texts`` of ``run``: JSON, compressed and in base64.
        start: the module to run.
    """
    _create(_compiled(first))
    from lockstep.node.readers.kept import keep, kept

    # Another Python, even another build of it, may have other byte code.
    key = hashlib.sha256(f"{sys.version}\0{packed}".encode()).digest()
    data = kept(COMPILED)
    content = data[2 * DIGEST :]
    if data[: 2 * DIGEST] == key + hashlib.sha256(content).digest():
        modules: dict[str, CodeType] = marshal.loads(content)  # noqa: S302  # root's own
    else:
        modules = _compiled(json.loads(zlib.decompress(base64.b64decode(packed))))
        content = marshal.dumps(modules)
        keep(COMPILED, key + hashlib.sha256(content).digest() + content)
    _create(modules)
    sys.modules[start].main()


def _compiled(texts: dict[str, str]) -> dict[str, CodeType]:
    # Tracebacks show this file name.
    return {
        name: compile(text, name.replace(".", "/") + ".py", "exec", dont_inherit=True)
        for name, text in texts.items()
    }


def _create(modules: dict[str, CodeType]) -> None:
    for name, code in modules.items():
        module = sys.modules[name] = ModuleType(name)
        exec(code, vars(module))
