"""Kubernetes in the lab: programs, packages, container images, their registry, and the machines."""
