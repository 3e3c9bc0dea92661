"""Creates, completes and removes a whole lab."""

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Lock

from lab import (
    accelerator,
    disk_image,
    hardware,
    image,
    network,
    node_files,
    places,
    repository,
    setup,
    shared_host,
    state,
    wishes,
)
from lab.errors import InterruptedUp, LabError, WrongUseError
from lab.kubernetes import prepared
from lab.provider import Provider
from lab.providers import provider_of
from lab.readiness import wait_ready
from lab.removal import remove_tree, unmount_below
from lab.state import Kernel, LabState, Node


def up(
    name: str,
    workers: int | None,
    os_name: str | None,
    kernel: Kernel | None = None,
    inventory: str | None = None,
    kubernetes: list[str] | None = None,
    heads: int | None = None,
) -> LabState:
    """Create the missing parts of a lab and boot its nodes.

    Args:
        name: the lab.
        workers: number of workers; None: as before, or the default.
        os_name: operating system; None: as before, or the default.
        kernel: the host's kernel or the nodes' own; None: as before, or the host's.
        inventory: the file that describes the cluster; None: as before, or inventories/lab.py.
        kubernetes: its minor releases that the lab can install, oldest first; None: as before, or
            none.
        heads: number of heads; None: as before, or one.

    Raises:
        WrongUseError: the existing lab has another system, kernel, simulated software, description
            or more workers, or a lab cannot take the description.
        LabError: the creation failed; everything that this call created is removed again.
    """
    wishes.check_wishes(workers, os_name, heads, inventory is not None)
    setup.prepare_host(kubernetes=bool(kubernetes))
    with places.locked(name):
        existing = state.read(name)
        if existing is not None and not existing.ready:
            _print("an interrupted `up` left this lab unfinished: removing it")
            _remove(name, existing)
            existing = None
        if existing is not None:
            wishes.check_against(existing, workers, os_name, kernel, kubernetes, heads)
            wishes.check_description(existing, workers, inventory)
        chosen = existing.kernel if existing is not None else kernel or "shared"
        setup.prepare_host(chosen)
        places.state_folder().mkdir(parents=True, exist_ok=True)
        setup.check_host(chosen)
        if existing is None and inventory is not None:
            return _create_described(name, workers, os_name, chosen, inventory, kubernetes)
        if existing is None:
            os_name = os_name or wishes.DEFAULT_OS
            return _create(name, workers, os_name, chosen, kubernetes, heads or 1)
        wishes.check_stand_ins(existing)
        return _complete(existing, workers or wishes.count_workers(existing))


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Prevent a second Ctrl-C from stopping the cleanup after the first one."""
    before = {
        number: signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print(text: str) -> None:
    print(text, flush=True)


def _node(lab: LabState, number: int) -> Node:
    """Return a node by number: 1 to MOST_WORKERS are workers; 0, -1 and -2 are heads."""
    if number <= 0:
        return Node(
            name=f"head{1 - number}" if number else "head",
            role="head",
            address=network.address_in(lab.prefix, network.HEAD_HOST_PART - number),
            fabric_address=None,
        )
    host_part = network.FIRST_WORKER_HOST_PART + number
    return Node(
        name=f"worker{number}",
        role="worker",
        address=network.address_in(lab.prefix, host_part),
        fabric_address=network.address_in(lab.fabric_prefix, host_part),
    )


def _create(
    name: str,
    workers: int | None,
    os_name: str,
    kernel: Kernel,
    kubernetes: list[str] | None,
    heads: int,
) -> LabState:
    def prepare(lab: LabState) -> None:
        number = workers or wishes.DEFAULT_WORKERS
        lab.nodes = [
            *(_node(lab, -place) for place in range(heads)),
            *(_node(lab, place) for place in range(1, number + 1)),
        ]

    return _create_with(name, os_name, kernel, prepare, kubernetes)


def _create_described(
    name: str,
    workers: int | None,
    os_name: str | None,
    kernel: Kernel,
    inventory: str,
    kubernetes: list[str] | None,
) -> LabState:
    from lab import description  # it imports all of Lockstep's plan, which no other command needs

    found = description.read(inventory)
    release = description.release(found)
    if kernel != "shared" or os_name not in (None, release):
        raise WrongUseError(
            f"--description {inventory}: expected --kernel shared and --os {release}, which the "
            "description names",
            f"lockstep lab --name {name} up --description {inventory}",
        )
    prepare = partial(description.prepare, found, workers)
    return _create_with(name, release, kernel, prepare, kubernetes)


def _create_with(
    name: str,
    os_name: str,
    kernel: Kernel,
    prepare: Callable[[LabState], None],
    kubernetes: list[str] | None,
) -> LabState:
    """Create a lab; ``prepare`` gives it its nodes."""
    wishes.check_kubernetes(os_name, kubernetes)
    try:
        shared_host.join(name, with_registry=bool(kubernetes))
        chosen = image.ensure(os_name)
        disks = disk_image.ensure(chosen) if kernel == "own" else None
        packages = repository.ensure()
        prefix, fabric_prefix = network.prefixes(name)
        folder = places.lab_folder(name)
        lab = LabState(
            name=name,
            os=os_name,
            kernel=kernel,
            accelerator=accelerator.choose(disks) if disks else None,
            prefix=prefix,
            fabric_prefix=fabric_prefix,
            ssh_key=str(folder / "id_ed25519"),
            known_hosts=str(folder / "known_hosts"),
            ssh_config=str(folder / "ssh_config"),
            archive_versions=str(chosen.versions),
            repository_uri=packages.uri,
            repository_key=str(packages.key),
            repository_versions=str(packages.versions),
            image=str(chosen.folder),
            disks=str(disks.folder) if disks else None,
            hardware={},
            nodes=[],
        )
        if kubernetes:
            lab.kubernetes = prepared.prepare(kubernetes, chosen, packages)
        lab.hardware = hardware.of(lab)
        prepare(lab)
        # Save the state first: if this process is killed, `down` knows what to remove.
        state.save(lab)
        node_files.make_lab_key(lab)
        _make_and_boot(lab)
        lab.ready = True
        state.save(lab)
    except BaseException as failure:
        _print(f"{_why(failure)}: removing everything that this call created")
        with _uninterrupted():
            _remove(name, state.read_to_remove(name))
        raise
    return lab


def _complete(lab: LabState, workers: int) -> LabState:
    new = [_node(lab, number) for number in range(wishes.count_workers(lab) + 1, workers + 1)]
    new_names = {node.name for node in (*new, *lab.nodes) if not node.made}
    lab.nodes += new
    state.save(lab)
    try:
        shared_host.join(lab.name, with_registry=lab.kubernetes is not None)
        if new and lab.kernel == "own":
            disks = disk_image.ensure(image.Image(Path(lab.image)))
            lab.disks = str(disks.folder)
        _make_and_boot(lab)
    except BaseException as failure:
        if new_names:
            _print(f"{_why(failure)}: removing the nodes that this call was creating")
            with _uninterrupted():
                _remove_nodes(lab, new_names)
        raise
    return lab


def _why(failure: BaseException) -> str:
    interrupted = isinstance(failure, (KeyboardInterrupt, InterruptedUp))
    return "interrupted" if interrupted else "failed"


def _make_and_boot(lab: LabState) -> None:
    provider = provider_of(lab)
    network.make_switch(lab)
    off = [node for node in lab.nodes if not provider.running(node)]
    for node in lab.nodes:
        if not node.made:
            provider.destroy(lab.name, node.name)
        if node in off:
            provider.create(lab, node)
        if provider.sees_disk(node):
            with provider.disk(lab.name, node) as root:
                node_files.write_identity(lab, node, root)
        node.made = True
    node_files.write_client_files(lab)
    state.save(lab)
    boot(lab, off, provider)


def boot(lab: LabState, nodes: list[Node], provider: Provider) -> None:
    """Power on nodes, several at a time, and wait until all are ready.

    Raises:
        LabError: some nodes did not become ready; the others were waited for.
    """
    stop = Event()
    started_at = time.monotonic()
    saving = Lock()

    def save() -> None:
        with saving:
            state.save(lab)

    def one(node: Node) -> tuple[Node, list[str], float]:
        if stop.is_set():
            raise LabError(f"node {node.name!r}: interrupted before its boot")
        begun = time.monotonic()
        provider.power_on(lab, node, save)
        failed_units = wait_ready(lab, node, provider, stop.is_set)
        return node, failed_units, time.monotonic() - begun

    if not nodes:
        return
    _print(f"booting {len(nodes)} node(s): {' '.join(node.name for node in nodes)}")
    problems: list[LabError] = []
    pool = ThreadPoolExecutor(max_workers=min(len(nodes), provider.boots_at_once))
    try:
        for future in [pool.submit(one, node) for node in nodes]:
            try:
                node, failed_units, seconds = future.result()
            except LabError as problem:
                problems.append(problem)
                continue
            note = f", FAILED UNITS: {' '.join(failed_units)}" if failed_units else ""
            _print(f"  {node.name}: ready after {seconds:.1f} s{note}")
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
        # The state must list all running processes, even after a failure.
        state.save(lab)
    if problems:
        raise LabError("; ".join(problem.problem for problem in problems), problems[0].next_step)
    _print(f"all ready after {time.monotonic() - started_at:.1f} s")


def _remove_nodes(lab: LabState, names: set[str]) -> None:
    provider = provider_of(lab)
    for node in [node for node in lab.nodes if node.name in names]:
        provider.power_off(lab.name, node)
        network.remove_node(lab.name, node.name)
        provider.destroy(lab.name, node.name)
        lab.nodes.remove(node)
        state.save(lab)
    node_files.write_client_files(lab)


def _remove(name: str, lab: LabState | None) -> None:
    """Remove all parts of a lab in any state."""
    if lab is not None:
        provider = provider_of(lab)
        for node in lab.nodes:
            provider.power_off(name, node)
        for node in lab.nodes:
            network.remove_node(name, node.name)
            provider.destroy(name, node.name)
        network.remove_switch(name)
    unmount_below(places.lab_folder(name))
    remove_tree(places.lab_folder(name))
    image.clear_after_killed_build()
    disk_image.clear_after_killed_build()
    shared_host.leave(name)


def down(name: str) -> bool:
    """Remove a lab, but keep the image and the apt cache; return False if it did not exist."""
    setup.require_root()
    with places.locked(name):
        found = places.lab_folder(name).exists() or name in shared_host.labs()
        _remove(name, state.read_to_remove(name))
    return found


def purge() -> list[str]:
    """Remove all labs, caches and state; return the names of the removed labs."""
    setup.require_root()
    removed = sorted({*places.known_labs(), *shared_host.labs()})
    for name in removed:
        down(name)
    disk_image.delete_all()
    image.delete_all()
    for folder in (places.cache_folder(), places.state_folder()):
        remove_tree(folder)
    return removed


def power(lab: LabState, node: Node, *, off: bool, on: bool) -> None:
    """Power a node off, on, or off and on; wait until a node that was powered on is ready."""
    provider = provider_of(lab)
    if off:
        provider.power_off(lab.name, node)
        state.save(lab)
    if on and not provider.running(node):
        # After a reboot of the host, the disk's mount and the network are gone as well.
        network.make_switch(lab)
        provider.create(lab, node)
        shared_host.join(lab.name, with_registry=lab.kubernetes is not None)
        boot(lab, [node], provider)
