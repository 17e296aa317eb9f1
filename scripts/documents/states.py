"""States and the moves between them, from the tables of the code, as tables for docs/architecture.md."""
import re

TABLES = {
    "session": "host/session/session_states.def",
    "sandbox": "host/sandbox/sandbox_states.def",
    "branch": "guest/supervisor/branch/branch_states.def",
}
STATE = re.compile(r'^\w+_STATE\((\w+), (?:(\d+), "[^"]*",\s+)?"([^"]+)"\)', re.M)
MOVE = re.compile(r"^\w+_MOVE\((\w+), ([\w ]+), (\w+)\)", re.M)


def table(root, name):
    """The states of a `name`; with their time limits where they have any."""
    text = (root / TABLES[name]).read_text()
    states, moves = STATE.findall(text), MOVE.findall(text)
    limited = any(seconds for _, seconds, _ in states)
    rows = [["state", f"what the {name} waits for", *(["limit"] if limited else []), "moves"]]
    rows.append(["---"] * len(rows[0]))
    for state, seconds, awaits in states:
        limit = [f"{seconds} s" if seconds != "0" else ""] if limited else []
        ways = ", ".join(f"{event.lower().replace('_', ' ')} → {to}" for source, event, to in moves if source == state)
        rows.append([state, awaits, *limit, ways])
    return "\n".join(f"| {' | '.join(row)} |" if row[0] != "---" else f"|{'|'.join(row)}|" for row in rows)
