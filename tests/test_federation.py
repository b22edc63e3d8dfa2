"""The line to the clients, with a clock that only moves when somebody sleeps."""

import weakref
from collections import Counter
from types import SimpleNamespace

import pytest
from fake_grid import by_superlink
from flwr.app import Error, Message, RecordDict
from flwr.serverapp import Grid

from fedeas_app import federation
from fedeas_app.errors import UserError
from fedeas_app.federation import (
    Addressees,
    StreamingGrid,
    ask,
    connect,
    reason,
    refuse_dead_worker,
    still_connected,
    summarise,
)


class Clock:
    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        assert seconds > 0
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(federation, "time", clock)
    return clock


class Scripted(Grid):
    """Replies come at given times; nodes too."""

    def __init__(self, clock, replies=(), refused=(), nodes=()):
        self.clock, self.start = clock, clock.now
        self.due = dict(replies)  # seconds after the start, by node
        self.refused = set(refused)
        self.nodes = nodes
        self.broken = {}
        self.sent = []
        self.calls = []
        self.pulls = 0

    def set_run(self, run):
        self.calls.append(("set_run", run))

    @property
    def run(self):
        return "the run"

    def create_message(self, *args, **kwargs):
        return ("message", args, kwargs)

    def get_node_ids(self):
        return [n for n, since in self.nodes if since <= self.clock.now - self.start]

    def push_messages(self, messages):
        self.sent = list(messages)
        for msg in self.sent:
            msg.metadata.__dict__["_message_id"] = f"to-{msg.metadata.dst_node_id}"
        return [
            None if msg.metadata.dst_node_id in self.refused else msg.metadata.message_id
            for msg in self.sent
        ]

    def pull_messages(self, message_ids):
        self.pulls += 1
        wanted = list(message_ids)
        assert all(isinstance(text, str) for text in wanted)
        here = []
        for msg in self.sent:
            node = msg.metadata.dst_node_id
            if msg.metadata.message_id in wanted and self._is_here(node):
                content = self.broken.get(node, RecordDict())
                here.append(Message(content, reply_to=msg))
        return here

    def send_and_receive(self, messages, *, timeout=None):
        raise AssertionError

    def _is_here(self, node):
        return self.due.get(node, float("inf")) <= self.clock.now - self.start


class InMemoryGrid(Scripted):
    """Named like the grid of Flower's simulation."""


def requests(*nodes):
    return [Message(RecordDict(), node, "train") for node in nodes]


def receive(grid, clock, nodes, timeout=None):
    """Return (node, seconds) for each reply."""
    replies = StreamingGrid(grid).send_and_receive(requests(*nodes), timeout=timeout)
    return [(reply.metadata.src_node_id, clock.now - grid.start) for reply in replies]


def test_replies_are_yielded_when_they_arrive(clock):
    grid = Scripted(clock, {7: 5.0, 8: 0.0, 9: 60.0})
    received = receive(grid, clock, [7, 8, 9])
    assert [node for node, _ in received] == [8, 7, 9]
    for (_, at), due in zip(received, [0.0, 5.0, 60.0], strict=True):
        assert due <= at <= due + 1.0  # looks at least once a second


def test_waiting_ends_at_the_timeout(clock):
    grid = Scripted(clock, {7: 1.0, 9: 11.0})
    assert [node for node, _ in receive(grid, clock, [7, 8, 9], timeout=10.0)] == [7]
    assert clock.now - grid.start == pytest.approx(10.0)
    assert grid.pulls < 40  # and does not ask all the time


def test_what_has_arrived_at_the_timeout_is_used(clock):
    grid = Scripted(clock, {7: 10.0})
    assert receive(grid, clock, [7, 8], timeout=10.0) == [(7, pytest.approx(10.0))]


def test_slow_use_of_replies_loses_none_that_arrived(clock):
    grid = Scripted(clock, {7: 0.0, 8: 1.0})
    seen = []
    for reply in StreamingGrid(grid).send_and_receive(requests(7, 8), timeout=10.0):
        seen.append(reply.metadata.src_node_id)
        clock.sleep(20.0)
    assert seen == [7]  # the time for the round is over
    grid = Scripted(clock, {7: 0.0, 8: 0.0})
    for _ in StreamingGrid(grid).send_and_receive(requests(7, 8), timeout=10.0):
        seen.append(_.metadata.src_node_id)
        clock.sleep(20.0)
    assert seen == [7, 7, 8]


def test_nothing_sent_nothing_waited_for(clock):
    grid = Scripted(clock)
    assert receive(grid, clock, []) == []
    assert grid.pulls == 0


def test_refused_messages_are_not_waited_for(clock):
    grid = Scripted(clock, {7: 2.0}, refused=[8])
    assert [node for node, _ in receive(grid, clock, [7, 8])] == [7]


def test_replies_are_let_go_one_by_one(clock):
    grid = Scripted(clock, dict.fromkeys(range(2, 12), 0.0))
    alive, left = [], []
    for reply in StreamingGrid(grid).send_and_receive(requests(*range(2, 12))):
        alive.append(weakref.ref(reply))
        left.append(sum(ref() is not None for ref in alive))
        del reply
    assert max(left) <= 2


class Counting(Scripted):
    """Keeps how many messages were ever under way at a time."""

    def __init__(self, clock, replies):
        super().__init__(clock, replies)
        self.all, self.under_way, self.most = [], set(), 0

    def push_messages(self, messages):
        ids = super().push_messages(messages)
        self.all = self.sent = self.all + self.sent
        self.under_way |= set(ids)
        self.most = max(self.most, len(self.under_way))
        return ids

    def pull_messages(self, message_ids):
        replies = super().pull_messages(message_ids)
        self.under_way -= {reply.metadata.reply_to_message_id for reply in replies}
        return replies


@pytest.mark.parametrize("name", ["InMemoryGrid", "HttpGrid"])
def test_only_in_simulation_few_messages_are_under_way_at_a_time(clock, monkeypatch, name):
    monkeypatch.setattr(federation, "cores", lambda: 2)
    nodes = range(10, 50)
    grid = type(name, (Counting,), {})(clock, {node: node / 10 for node in nodes})
    received = [node for node, _ in receive(grid, clock, nodes)]
    assert sorted(received) == list(nodes)
    assert [msg.metadata.dst_node_id for msg in grid.all] == list(nodes)
    assert grid.most == (8 if name == "InMemoryGrid" else 40)


def test_in_simulation_what_was_never_sent_is_not_waited_for_after_the_timeout(clock, monkeypatch):
    monkeypatch.setattr(federation, "cores", lambda: 1)
    grid = type("InMemoryGrid", (Counting,), {})(clock, {2: 1.0})
    assert [node for node, _ in receive(grid, clock, range(2, 9), timeout=10.0)] == [2]
    assert len(grid.all) == 5
    assert clock.now - grid.start == pytest.approx(10.0)


def test_refused_messages_do_not_keep_a_simulation_from_sending_the_next(clock, monkeypatch):
    monkeypatch.setattr(federation, "cores", lambda: 1)
    grid = type("InMemoryGrid", (Counting,), {})(clock, {9: 0.0})
    grid.refused = set(range(2, 9))
    assert [node for node, _ in receive(grid, clock, range(2, 10))] == [9]


def test_everything_else_is_the_wrapped_grids(clock):
    grid = Scripted(clock, nodes=[(4, 0)])
    streaming = StreamingGrid(grid)
    streaming.set_run("r")
    assert grid.calls == [("set_run", "r")]
    assert streaming.run == "the run"
    assert streaming.create_message(1, a=2) == ("message", (1,), {"a": 2})
    assert streaming.get_node_ids() == [4]
    assert list(streaming.push_messages(requests(5))) == ["to-5"]
    assert list(streaming.pull_messages(["to-5"])) == []


def arriving(count, every=0.0):
    return [(50 - k, k * every) for k in range(count)]


def test_connect_returns_the_nodes_in_order(clock, configure):
    grid = Scripted(clock, nodes=arriving(4))
    assert connect(grid, configure()) == [47, 48, 49, 50]
    assert clock.now == grid.start


def test_connect_waits_for_nodes_that_come_late(clock, configure):
    grid = Scripted(clock, nodes=arriving(4, every=20.0))
    assert len(connect(grid, configure(num_clients=4), timeout=120.0)) == 4


def test_who_is_waited_for_is_told_whenever_it_changes(clock, configure, caplog):
    grid = Scripted(clock, nodes=[(1, 5.0), (2, 5.0), (3, 40.0)])
    with caplog.at_level("INFO"):
        connect(grid, configure(num_clients=3))
    expected = [f"Waiting for 3 SuperNodes; connected: {number}." for number in (0, 2)]
    assert caplog.messages == expected


def test_nobody_is_waited_for_where_all_are_there(clock, configure, caplog):
    with caplog.at_level("INFO"):
        connect(Scripted(clock, nodes=arriving(4)), configure(num_clients=4))
        connect(Scripted(clock, nodes=arriving(2)), configure(num_clients="auto"))
    assert caplog.messages == []
    with caplog.at_level("INFO"):
        connect(Scripted(clock, nodes=[(1, 9.0)]), configure(num_clients="auto"))
    assert caplog.messages == ["Waiting for SuperNodes; none is connected."]


def test_connect_gives_up_at_the_timeout(clock, configure):
    grid = Scripted(clock, nodes=arriving(3))
    with pytest.raises(UserError, match=r"num-clients is 4, but 3 SuperNodes.*num-supernodes=4"):
        connect(grid, configure(num_clients=4), timeout=30.0)
    assert 30.0 <= clock.now - grid.start <= 31.0


def test_more_nodes_than_clients_are_refused_at_once(clock, configure):
    grid = Scripted(clock, nodes=arriving(5))
    with pytest.raises(UserError, match="num-clients is 4, but 5 SuperNodes are connected"):
        connect(grid, configure(num_clients=4))
    assert clock.now == grid.start


def test_auto_takes_who_is_there_and_refuses_nobody(clock, configure):
    grid = Scripted(clock, nodes=[(9, 0), (8, 3)])
    assert connect(grid, configure(num_clients="auto")) == [9]
    with pytest.raises(UserError, match="No SuperNode is connected"):
        connect(Scripted(clock), configure(num_clients="auto"), timeout=5.0)


def test_a_simulation_of_another_size_is_refused_within_seconds(clock, configure):
    # The server wraps its grid, as here.
    grid = InMemoryGrid(clock, nodes=arriving(2))
    with pytest.raises(UserError, match="num-clients is 4, but 2 SuperNodes"):
        connect(StreamingGrid(grid), configure(num_clients=4), timeout=120.0)
    assert clock.now - grid.start <= 3.0


def test_a_simulation_that_is_still_registering_its_nodes_is_waited_for(clock, configure):
    grid = InMemoryGrid(clock, nodes=arriving(4, every=0.9))
    assert len(connect(StreamingGrid(grid), configure(num_clients=4), timeout=120.0)) == 4


def test_late_in_a_run_as_many_as_before_are_taken_at_once(clock, configure):
    grid = Scripted(clock, nodes=arriving(4))
    assert still_connected(grid, configure(num_clients=4), 4) == [47, 48, 49, 50]
    assert still_connected(grid, configure(num_clients=3), 3) == [47, 48, 49, 50]
    assert clock.now == grid.start


def test_late_in_a_run_nobody_waits_for_who_is_gone(clock, configure, caplog):
    grid = Scripted(clock, nodes=arriving(3))
    assert still_connected(grid, configure(num_clients=4), 4) == [48, 49, 50]
    assert clock.now - grid.start <= 3.0
    assert caplog.messages == ["3 of 4 SuperNodes are left."]
    with pytest.raises(UserError, match="No SuperNode is connected"):
        still_connected(Scripted(clock), configure(num_clients=4), 4)


def test_ask_pairs_each_reply_with_its_node(clock):
    grid = Scripted(clock, {7: 3.0, 8: 0.0})
    answers = list(ask(grid, {7: RecordDict(), 8: RecordDict()}, "query.prepare", 60.0))
    assert [node for node, _ in answers] == [8, 7]
    assert {msg.metadata.message_type for msg in grid.sent} == {"query.prepare"}


def test_ask_names_each_reason_once_after_all_have_answered(clock):
    grid = Scripted(clock, {2: 0.0, 3: 5.0, 4: 1.0, 5: 9.0})
    grid.broken = {
        2: Error(2, "<class 'fedeas_app.errors.UserError'>:<'The disk is full.'>"),
        4: Error(2, "<class 'fedeas_app.errors.UserError'>:<'The disk is full.'>"),
        5: Error(2, "<class 'ValueError'>:<'Odd.'>"),
    }
    answers, nodes = [], {node: RecordDict() for node in (2, 3, 4, 5, 6)}
    with pytest.raises(UserError) as caught:
        answers.extend(node for node, _ in ask(grid, nodes, "query.prepare", 60.0))
    assert answers == [3]
    assert str(caught.value) == (
        "query.prepare failed: The disk is full. (2 clients) Odd. No reply within 60 seconds."
    )


def numbered(messages):
    for msg in messages:
        msg.metadata.__dict__["_message_id"] = f"id-{msg.metadata.dst_node_id}"
    return messages


def test_the_addressee_comes_from_the_request_not_from_the_sender():
    sent = numbered(requests(7, 8))
    addressee = Addressees(sent)
    made_up = by_superlink(Message(Error(3, "gone"), reply_to=sent[1]))
    assert made_up.metadata.src_node_id == 1
    assert addressee(made_up) == 8
    assert addressee(Message(RecordDict(), reply_to=sent[0])) == 7


def test_a_reply_to_what_was_not_asked_is_about_its_sender():
    sent, (other,) = numbered(requests(7, 8)), numbered(requests(9))
    addressee = Addressees(sent)
    assert addressee(Message(RecordDict(), reply_to=other)) == 9
    assert addressee(by_superlink(Message(Error(3, "gone"), reply_to=sent[0]))) == 7


def test_addressees_are_found_while_messages_are_still_being_sent_and_some_are_refused():
    sent = requests(1, 2, 3, 4)
    addressee, found = Addressees(sent), []
    for window in (sent[1:2], sent[2:]):  # the first never gets an id
        replies = [Message(Error(3, "gone"), reply_to=msg) for msg in numbered(window)]
        found += [addressee(by_superlink(reply)) for reply in reversed(replies)]
    assert found == [2, 4, 3]


class Looked:
    """A message that counts how often somebody looks at it."""

    looks = 0

    def __init__(self, number):
        self._metadata = SimpleNamespace(message_id="", dst_node_id=number)

    @property
    def metadata(self):
        Looked.looks += 1
        return self._metadata

    def reply(self):
        self._metadata.message_id = f"id-{self._metadata.dst_node_id}"
        origin = self._metadata.message_id
        return SimpleNamespace(metadata=SimpleNamespace(reply_to_message_id=origin, src_node_id=1))


@pytest.mark.parametrize("at_once", [8, 3000])
def test_every_request_is_looked_at_a_few_times_however_many_there_are(at_once):
    sent = [Looked(number) for number in range(3000)]
    addressee, found = Addressees(sent), []
    before = Looked.looks
    for first in range(0, len(sent), at_once):
        replies = [msg.reply() for msg in sent[first : first + at_once]]
        found += [addressee(reply) for reply in reversed(replies)]
    assert sorted(found) == list(range(3000))
    assert Looked.looks - before == 2 * len(sent)


# As a simulated client's error arrives: with the traceback of Flower's Ray actor.
RAY = (
    "<class 'ray.exceptions.RayTaskError(ClientAppException)'>:<'\x1b[36mray::ClientAppActor.run()"
    "\x1b[39m (pid={pid}, ip=192.0.2.2, repr=<flwr.ClientAppActor object at 0x7f5a75ee7910>)\n"
    '  File "/site-packages/flwr/clientapp/client_app.py", line 161, in __call__\n'
    "    raise ValueError(\"it's broken\")\nValueError: it's broken\n\nThe above exception was the "
    "direct cause of the following exception:\n\nflwr.clientapp.client_app.ClientAppException: \n"
    "Exception ClientAppException occurred. Message: it's broken'>"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<class 'ValueError'>:<'it's broken'>", "it's broken"),
        ("<class 'fedeas_app.errors.UserError'>:<'Two\nlines. '>", "Two\nlines."),
        (RAY.format(pid=1), "it's broken"),
        ("Node is gone", "Node is gone"),
        ("", "error code 3"),
        (None, "error code 3"),
    ],
)
def test_reason_is_the_clients_own_sentence(text, expected):
    reply = Message(Error(3, text), reply_to=requests(5)[0])
    assert reason(reply) == expected


def test_summary_counts_equal_reasons():
    failures = Counter({"Rare.": 1, "Common.": 12, "Other.": 2})
    assert summarise(failures) == "Common. (12 clients) Other. (2 clients) Rare."


def test_a_killed_worker_ends_the_run(configure):
    request = Message(RecordDict(), 7, "train")
    request.metadata.__dict__["_message_id"] = "m"
    text = "<class 'ray.exceptions.ActorDiedError'>:<'The actor died unexpectedly.'>"
    with pytest.raises(UserError, match="A simulation worker was killed"):
        refuse_dead_worker(Message(Error(code=0, reason=text), reply_to=request))
    refuse_dead_worker(Message(Error(code=2, reason="<class 'X'>:<'y'>"), reply_to=request))
    refuse_dead_worker(Message(RecordDict(), reply_to=request))
