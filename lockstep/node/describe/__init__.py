"""Readings for ``lockstep describe`` only; the probe of a check does not contain these modules."""
