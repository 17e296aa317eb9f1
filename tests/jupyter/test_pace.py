"""Large outputs are not sent faster than a server takes them."""

from limpet.jupyter import _pace


class Clock:
    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def test_no_window_has_more_than_the_server_takes(monkeypatch):
    clock, pace, sent = Clock(), _pace.Pace(), []
    monkeypatch.setattr(_pace, "time", clock)
    for size in [2_000_000, 300_000, 2_000_000, 50_000, 5_000_000, 200_000, 1_000_000, 1_000_000, 1_000_000]:
        pace.wait(size)
        sent.append((clock.now, size))
    assert [now for now, _ in sent][:4] == [0.0, 0.0, 3.0, 3.0]
    for begin, _ in sent:
        within = [size for now, size in sent if begin <= now < begin + _pace.WINDOW and size >= _pace.LARGE]
        assert sum(within) <= _pace.MOST or len(within) == 1


def test_endless_text_leaves_no_more_than_is_read(monkeypatch):
    clock, pace, sent = Clock(), _pace.Pace(_pace.TEXT), []
    monkeypatch.setattr(_pace, "time", clock)
    for size in [1 << 16] * 1200 + [1] * 6000:
        pace.message(size)
        sent.append((clock.now, size))
    assert sent[_pace.TEXT >> 16][0] > 0 and clock.now < 30
    for begin in {now for now, _ in sent}:
        within = [size for now, size in sent if begin <= now < begin + _pace.WINDOW]
        assert sum(within) <= _pace.TEXT and len(within) <= _pace.MANY
