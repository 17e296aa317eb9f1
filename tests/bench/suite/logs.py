"""logging with a format, a filter and handlers that keep what they are given."""
import io
import logging


def work():
    kept = io.StringIO()
    handler = logging.StreamHandler(kept)
    handler.setFormatter(logging.Formatter("%(levelname)-8s %(name)s:%(lineno)d %(message)s"))
    log = logging.Logger("bench", logging.INFO)
    log.addHandler(handler)
    log.addFilter(lambda record: record.args[0] % 5 != 0)
    for i in range(1000):
        log.debug("%d is not seen", i)
        log.info("%d is %s", i, "even" if i % 2 == 0 else "odd")
    return len(kept.getvalue())
