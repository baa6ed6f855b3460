"""Experiments: config → plan → trials → log."""
