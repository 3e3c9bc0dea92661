"""What each field of a description becomes on a node: packages, with their repository, and files.

Nothing here is listed by hand. A field is changed, the plan is made again, and what differs in the
packages and files of the node comes from that field. So a role, a template or a row of the
catalogue that begins to use a field shows up by itself.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Literal, get_args, get_origin

from netaddr import IPAddress, IPNetwork
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from lockstep.catalog import archives, job_containers, nvidia
from lockstep.catalog.archives import Archive
from lockstep.catalog.nvidia import doca
from lockstep.files import rendered
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.plan import plan as make_plan
from lockstep.plan.declaration import File
from lockstep.render import TemplateError
from lockstep.spec import Cluster

SAMPLES: tuple[object, ...] = (
    *(True, 1, 3600, "1.2.3", "v1", "x", "/dev/x[0-7]"),
    *(("x",), ("1g.18gb",), ("0000:15:01.0",), {"x": "1"}),
)
"""Values for a field that the description leaves out; those that its type accepts are tried."""

VALUES = 3
"""How many other values of a field are tried; most fields show everything with the first one."""

EVERY_NODE = "nodes"
"""The field for what a node has because it is one, whatever else the description says."""

_NO_PLAN = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, TemplateError)
"""Errors while a plan is made of values that do not fit each other; such a value shows nothing."""


@dataclass
class Becomes:
    """What a field becomes on one node or on several ones."""

    packages: dict[str, str | None] = field(default_factory=dict)
    """Package -> its version, which may be a pattern; None if the field does not lock it."""
    files: dict[str, str] = field(default_factory=dict)
    """Path -> its role."""

    def __bool__(self) -> bool:
        """Return whether it is anything at all."""
        return bool(self.packages or self.files)

    def leave_out(self, other: Becomes) -> None:
        """Remove what another field becomes."""
        self.packages = {n: v for n, v in self.packages.items() if n not in other.packages}
        self.files = {path: role for path, role in self.files.items() if path not in other.files}

    def add(self, other: Becomes) -> None:
        """Add what the field becomes elsewhere."""
        self.packages |= other.packages
        self.files |= other.files


@dataclass(frozen=True)
class _State:
    packages: Mapping[str, str | None]
    files: Mapping[str, tuple[str, bytes | None]]
    """Path -> its role and its content; None if the content is not compared."""


def _state(node: NodePlan) -> _State:
    software = node.software
    return _State(
        {name: software.versions.get(name) for name in software.packages},
        {file.path: (role, _content(role, file, node)) for role, file in node.system.files},
    )


def _content(role: str, file: File, node: NodePlan) -> bytes | None:
    # A secret is not made to be shown; a copy of Lockstep's own source is always the same.
    if file.secret or file.path.endswith(".py"):
        return None
    try:
        return rendered(role, file, node, None).content
    except _NO_PLAN:
        return None


def _difference(before: _State, after: _State) -> Becomes:
    found = Becomes()
    for one, other in ((before, after), (after, before)):
        # Names that only the changed value brings are shown for a field that brings none itself.
        if not found.packages:
            found.packages = {
                name: version
                for name, version in one.packages.items()
                if name not in other.packages or other.packages[name] != version
            }
        if not found.files:
            found.files = {
                path: role
                for path, (role, content) in one.files.items()
                if path not in other.files
                or (content != other.files[path][1] and None not in (content, other.files[path][1]))
            }
    return found


def of_fields(plan: ClusterPlan, names: tuple[str, ...]) -> dict[str, Becomes]:
    """Return what each field of a description becomes on some nodes of its cluster.

    Fields that become neither a package nor a file are left out. Entries of lists and dictionaries
    share a name: ``nodes[].management``, ``hardware.*.gpu.count``. A field that contains others is
    named only for what none of these becomes.

    Args:
        plan: the plan of the cluster.
        names: the names of the nodes.
    """
    before = {name: _state(plan.nodes[name]) for name in names}
    found: dict[str, Becomes] = {}
    for path, clusters in every_field(plan.spec):
        for cluster in clusters:
            changed = _changed(plan, cluster, before)
            found.setdefault(path, Becomes()).add(changed)
            if changed.packages and changed.files:
                break
    for path, one in found.items():
        inside = (f"{path}.", f"{path}[", f"{path}*")
        for other in [found[name] for name in found if name.startswith(inside)]:
            one.leave_out(other)
    rest = Becomes()
    for state in before.values():
        rest.packages |= state.packages
        rest.files |= {path: role for path, (role, _) in state.files.items()}
    for one in found.values():
        rest.leave_out(one)
    found[EVERY_NODE] = rest
    return {path: one for path, one in sorted(found.items()) if one}


def _changed(plan: ClusterPlan, cluster: Cluster, before: Mapping[str, _State]) -> Becomes:
    found = Becomes()
    try:
        nodes = make_plan(cluster, plan.roles, plan.inventory).nodes
    except _NO_PLAN:
        return found
    for name, state in before.items():
        if name not in nodes:
            continue
        try:
            found.add(_difference(state, _state(nodes[name])))
        except _NO_PLAN:
            continue
    return found


# -- other values of a field

Put = Callable[[Any], Cluster]


def every_field(cluster: Cluster) -> Iterator[tuple[str, Iterator[Cluster]]]:
    """Yield each field of a description, with descriptions that differ in that field only."""
    yield from _of(cluster, "", lambda new: new)


def _of(model: BaseModel, path: str, put: Put) -> Iterator[tuple[str, Iterator[Cluster]]]:
    for name, info in type(model).model_fields.items():
        here, value = f"{path}.{name}".lstrip("."), getattr(model, name)
        if name != "release":
            yield here, islice(_others(model, name, info, put), VALUES)
        inner: Put = partial(_put, model, name, put)
        if isinstance(value, BaseModel):
            yield from _of(value, here, inner)
        elif isinstance(value, tuple):
            for number, one in enumerate(value):
                if isinstance(one, BaseModel):
                    yield from _of(one, f"{here}[]", partial(_put_item, value, number, inner))
        elif isinstance(value, dict):
            for key, one in value.items():
                if isinstance(one, BaseModel):
                    yield from _of(one, f"{here}.*", partial(_put_key, value, key, inner))


def _put(model: BaseModel, name: str, put: Put, new: object) -> Cluster:
    return put(model.model_copy(update={name: new}))


def _put_item(value: tuple[Any, ...], number: int, put: Put, new: object) -> Cluster:
    return put((*value[:number], new, *value[number + 1 :]))


def _put_key(value: dict[Any, Any], key: object, put: Put, new: object) -> Cluster:
    return put({**value, key: new})


def _others(model: BaseModel, name: str, info: FieldInfo, put: Put) -> Iterator[Cluster]:
    given = {one: getattr(model, one) for one in model.model_fields_set}
    for candidate in _candidates(getattr(model, name), info):
        try:
            yield put(type(model).model_validate({**given, name: candidate}))
        except ValidationError:
            continue


def _candidates(value: Any, info: FieldInfo) -> Iterator[object]:
    if not info.is_required():
        default = info.get_default(call_default_factory=True)
        if default != value:
            yield default
    match value:
        case bool():
            yield not value
        case enum.Enum():
            yield from (one for one in type(value) if one is not value)
        case int() | float():
            yield value * 2
        case str():
            yield from (one for one in _choices(info.annotation) if one != value)
            yield re.sub(r"\d+(?=\D*$)", lambda found: str(int(found[0]) + 1), value)
            yield from (f"{value}x", "en_US.UTF-8")
        case tuple() if value and not isinstance(value[0], BaseModel):
            yield value[:-1]
        case None | () | {}:
            yield from _choices(info.annotation)
            yield from SAMPLES
        case IPAddress():
            yield value + 1
        case IPNetwork():
            yield value.next()


def _choices(annotation: Any) -> tuple[object, ...]:
    """Return the values of the Literal types within a type."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(choice for one in get_args(annotation) for choice in _choices(one))


# -- repositories


def source(plan: NodePlan, package: str) -> Archive:
    """Return where a package of a node usually comes from, or would come from.

    Which repositories the node has is another matter: ``software.repositories`` says it.
    """
    stack = plan.spec.software.nvidia
    if stack is not None:
        packaging = nvidia.packaging(stack.packaging, stack.driver, plan.release)
        for part in packaging.parts.keys() - packaging.from_archive:
            # Some names contain a CUDA release, the others none.
            for version in (None, stack.driver):
                names = packaging.packages(part, version, stack.driver, stack.cuda or ("0.0",))
                if any(package == name for name, _ in names):
                    return archives.of_part(part, plan.release)
    if package in doca.packages("0"):
        return archives.DOCA
    if package in job_containers.every_package():
        return archives.SITE
    return archives.of_release(plan.release)


@dataclass(frozen=True)
class Line:
    """One package or file of a node, with the field that it comes from."""

    field: str
    what: str
    """The package with its version, or the path of the file."""
    usually_from: str
    """The label of the repository that usually has the package, or the role of the file."""
    archive: Archive | None = None
    """The repository; None for a file."""


def lines(plan: ClusterPlan, name: str) -> Iterator[Line]:
    """Yield every package and file on a node, field by field.

    Args:
        plan: the plan of the cluster.
        name: the name of the node.
    """
    node = plan.nodes[name]
    present = set(node.system.paths())
    for path, becomes in of_fields(plan, (name,)).items():
        for package, version in becomes.packages.items():
            if package in node.software.packages:
                archive = source(node, package)
                yield Line(path, f"{package} {version or ''}".rstrip(), archive.label, archive)
        for file, role in becomes.files.items():
            if file in present:
                yield Line(path, file, f"role {role}")
