"""The numbers of the protocol's messages, as proto/messages.def has them: by name, and as wire.RUN and its like."""

import re

from . import ROOT

KINDS = {
    name: int(number)
    for number, name in re.findall(
        r'^MESSAGE\((\d+), \w+, "(\w+)"', (ROOT / "proto" / "messages.def").read_text(encoding="utf-8"), re.M
    )
}
NAMES = {number: name for name, number in KINDS.items()}
globals().update({name.upper(): number for name, number in KINDS.items()})
