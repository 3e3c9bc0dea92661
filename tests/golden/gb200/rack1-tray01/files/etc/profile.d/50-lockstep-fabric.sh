# Managed by Lockstep: edits are overwritten. Change the inventory and deploy again.
# Open MPI parameters for login shells (ompi_info --all). Existing settings take precedence.
# A batch job reads this file if its script begins with "#!/bin/bash -l".
export OMPI_MCA_btl_tcp_if_include="${OMPI_MCA_btl_tcp_if_include-ib0,ib1,ib2,ib3}"
export OMPI_MCA_btl_tcp_disable_family="${OMPI_MCA_btl_tcp_disable_family-4}"
