# Managed by Lockstep: edits are overwritten. Change the inventory and deploy again.
# Open MPI's parameters for login shells (ompi_info --all); what is set already stays.
# A batch job reads this when its script begins with "#!/bin/bash -l".
export OMPI_MCA_btl_tcp_disable_family="${OMPI_MCA_btl_tcp_disable_family-4}"
