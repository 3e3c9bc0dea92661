"""Example of a role of our own: a notice for users that log in to a worker."""

from pydantic import BaseModel, ConfigDict

from lockstep.plan import NodePlan
from lockstep.plan.declaration import Declaration, File


class Notice(BaseModel):
    """Settings of the role, in the description: extensions.login_notice."""

    model_config = ConfigDict(extra="forbid")

    text: str


def _wanted(plan: NodePlan) -> bool:
    return plan.is_worker and "login_notice" in plan.spec.extensions


def _text(plan: NodePlan) -> str:
    notice: Notice = plan.spec.extensions["login_notice"]
    return f"# Managed by Lockstep.\n{notice.text}\n"


LOGIN_NOTICE = Declaration(
    name="login_notice",
    title="Login notice",
    when=_wanted,
    settings=Notice,
    files=(File(path="/etc/motd.d/50-site", text=_text),),
)
