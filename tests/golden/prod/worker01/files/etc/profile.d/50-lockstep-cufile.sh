# Managed by Lockstep: edits are overwritten. Change the inventory and deploy again.
# cuFile reads this file instead of /etc/cufile.json. An existing setting takes precedence.
# A batch job reads this file if its script begins with "#!/bin/bash -l".
export CUFILE_ENV_PATH_JSON="${CUFILE_ENV_PATH_JSON:-/etc/lockstep/cufile.json}"
