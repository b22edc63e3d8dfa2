"""The directory that every run leaves."""
