"""Differential privacy of what clients train: noise, and what it is worth."""
