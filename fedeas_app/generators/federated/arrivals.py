"""SuperNodes that come, or come back, while the generator is trained."""

from typing import ClassVar

from flwr.app import Message, RecordDict

from fedeas_app import messages
from fedeas_app.latecomers import Latecomers
from fedeas_app.preparation import ClientPlan, read_sums, undecided


class Arrivals(Latecomers):
    """Asks a new node how many images it has; it is prepared like the others, after the rounds."""

    kind: ClassVar[str] = messages.OUTLOOK

    def request(self) -> RecordDict:
        """Return the question: nothing but the sums for one β, which are not used."""
        return messages.outlook_request([0.0])

    def read(self, reply: Message) -> tuple[ClientPlan, str]:
        """Return a client of which nothing is decided yet; it has no generator."""
        return undecided(read_sums(reply, 1)), ""
