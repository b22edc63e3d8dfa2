"""FedEAS and FedOUI as one Flower application."""

__version__ = "0.1.0"
