"""Fleets on a cluster of machines, by Ray (an optional package)."""
