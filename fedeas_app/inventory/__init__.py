"""What lies in a cache directory: listed, described, checked and removed."""

from fedeas_app.files import LAST_USED
from fedeas_app.inventory.checking import Damage, repair, verify
from fedeas_app.inventory.describing import describe
from fedeas_app.inventory.listing import (
    KINDS,
    REPLACEABLE,
    Entry,
    Inventory,
    Kind,
    take,
    take_drawers,
)
from fedeas_app.inventory.removing import Removal, clear, remove, select

__all__ = [
    "KINDS",
    "LAST_USED",
    "REPLACEABLE",
    "Damage",
    "Entry",
    "Inventory",
    "Kind",
    "Removal",
    "clear",
    "describe",
    "remove",
    "repair",
    "select",
    "take",
    "take_drawers",
    "verify",
]
