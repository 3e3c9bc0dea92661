"""Ubuntu 24.04 LTS (noble). Names and versions come from its archive (noble, noble-updates)."""

from lockstep.catalog.os import Release
from lockstep.catalog.os._debian import ENGINES, LOCALES

RELEASE = Release(
    id="ubuntu",
    version_id="24.04",
    engines=ENGINES,
    locales=LOCALES,
    # At boot, tmpfiles.d/debian.conf (systemd 255.4-1ubuntu8) links /etc/default/locale here.
    locale_file="/etc/locale.conf",
    # chrony 4.5 has no leapseclist (added in 4.6); its dependency tzdata-legacy has the zone.
    chrony_leap_seconds="leapsectz right/UTC",
    slurm=(23, 11),
)
