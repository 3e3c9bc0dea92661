"""The operation that has DKMS sign its modules with the key of the site."""

from __future__ import annotations

import shlex

from pyinfra import host

from lockstep.facts.files import file_states
from lockstep.facts.signing import built_modules, module_trust
from lockstep.fast import limits
from lockstep.plan import NodePlan
from lockstep.plan.signing import BuiltModule, Signing, signing
from lockstep.roles.operations.operation import CommandsOrReason, ask, operation, refusal


@operation(limit_s=limits.LONG_S)
def signed_modules(key: Signing) -> CommandsOrReason:
    """Have DKMS build the modules again that the site's key has not signed.

    Modules that another key has signed stay as they are while the kernel refuses the site's key:
    they may be the only ones that it loads.

    Args:
        key: the planned key.
    """
    certificate = key.certificate
    wrong = [
        one
        for one in ask(built_modules())
        if not all(signature.by(certificate) for _, signature in one.files)
    ]
    refused = bool(wrong) and ask(module_trust()).refuses(certificate)
    # dkms removes a module before it builds it: without headers, the node would lose it.
    headers = {one.kernel: f"/lib/modules/{one.kernel}/build/Makefile" for one in wrong}
    there = ask(file_states(tuple(headers.values()))) if wrong else {}
    for one in wrong:
        if refused and any(signature.signer for _, signature in one.files):
            host.log(
                f"{one.name} for kernel {one.kernel} keeps the signature of another key: Secure "
                "Boot is on, and the kernel does not trust the key of software.module_signing. "
                f"Next: on the node's console, {key.enrolment}; then deploy the node again"
            )
            continue
        if there[headers[one.kernel]] is None:
            yield refusal(
                f"{one.name} for kernel {one.kernel} keeps its signature, because DKMS could not "
                f"build it again: {headers[one.kernel]} is missing. Next: install the "
                "headers of this kernel, or remove the kernel; then deploy the node again"
            )
            continue
        yield _built_again(one, key)
    return "the modules are signed with the key of the site, or wait for its enrolment"


def _built_again(module: BuiltModule, key: Signing) -> str:
    """Return a command that builds and signs a module; it fails if the module is not signed then.

    dkms itself only warns if it cannot sign. Before 3.0, ``dkms build --force`` does not build an
    existing module again.
    """
    which = f"{shlex.quote(module.name)} -k {shlex.quote(module.kernel)}"
    checks = " && ".join(
        f'[ "$(modinfo -k {shlex.quote(module.kernel)} -F sig_key {shlex.quote(file)} '
        f'| tr -dc 0-9A-Fa-f | tr a-f A-F)" = {key.certificate.serial} ]'
        for file, _ in module.files
    )
    return (
        f"dkms remove {which} && dkms install {which} || {{ "
        f"echo 'dkms did not build {module.name} for kernel {module.kernel} again. Next: on the "
        f"node, run dkms install {which}, and read its lines' >&2; exit 1; }}; "
        f"{{ {checks}; }} || {{ "
        f'echo "dkms did not sign {module.name} for kernel {module.kernel} with '
        f"{key.key_file}. Next: on the node, run dkms build --force {module.name} -k "
        f'{module.kernel}, and read its lines about signing" >&2; exit 1; }}'
    )


def signed(plan: NodePlan) -> None:
    """Build modules again that were built before the key was there, or with another one."""
    key = signing(plan)
    if key is not None:
        signed_modules(name="Signed", key=key)
