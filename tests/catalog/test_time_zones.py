"""Time zones: present names only, and each former one is refused with the present one."""

import pytest
from pydantic import TypeAdapter, ValidationError

from lockstep.catalog.time_zones import FORMER, NAMES
from lockstep.spec.fields import TimeZone

ZONE = TypeAdapter(TimeZone)


def test_the_present_name_of_each_former_one_is_accepted() -> None:
    assert len(FORMER) == 113
    assert set(FORMER.values()) <= NAMES
    assert not NAMES & FORMER.keys()


@pytest.mark.parametrize(
    ("former", "present"),
    [
        ("US/Eastern", "America/New_York"),
        ("Asia/Calcutta", "Asia/Kolkata"),
        ("Europe/Kiev", "Europe/Kyiv"),
        ("EST5EDT", "America/New_York"),
    ],
)
def test_a_former_name_is_refused_with_the_present_one(former: str, present: str) -> None:
    with pytest.raises(ValidationError, match=f"{present}, the present name of this zone"):
        ZONE.validate_python(former)
    assert ZONE.validate_python(present) == present
