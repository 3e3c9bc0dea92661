"""Restore all objects of Kubernetes from a snapshot of etcd: --data snapshot=PATH."""

from lockstep.deploys import include

include("restore_etcd")
