"""Runs compared with each other: the grid, its cells, their table."""
