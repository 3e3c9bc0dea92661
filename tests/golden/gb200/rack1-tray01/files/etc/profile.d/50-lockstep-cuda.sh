# Managed by Lockstep: edits are overwritten. Change the inventory and deploy again.
# `nvcc` comes from the first CUDA release in the description.
case ":$PATH:" in
    *:/usr/local/cuda-13.0/bin:*) ;;
    *) PATH=/usr/local/cuda-13.0/bin:$PATH ;;
esac
export PATH
