"""SuperNodes that come, or come back, while the generator is trained."""

from typing import ClassVar

from flwr.app import Message, RecordDict

from fedeas_app import messages
from fedeas_app.latecomers import Latecomers
from fedeas_app.preparation import ClientPlan, read_present


class Arrivals(Latecomers):
    """Asks a new node how many images it has; it is prepared like the others, after the rounds."""

    kind: ClassVar[str] = messages.ROLL_CALL

    def request(self) -> RecordDict:
        """Return the question, the same as at the beginning."""
        return messages.roll_call_request()

    def read(self, reply: Message) -> tuple[ClientPlan, str]:
        """Return a client of which nothing is decided yet; it has no generator."""
        return read_present(reply), ""
