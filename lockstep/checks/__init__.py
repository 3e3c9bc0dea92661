"""Consistency: rules as data, and the engine that holds records against spec, device and peers."""
