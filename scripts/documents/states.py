"""The states of a branch in the supervisor and the moves between them, as a table for docs/architecture.md."""
import re

TABLE = "guest/supervisor/branch/branch_states.def"
STATE = re.compile(r'^BRANCH_STATE\((\w+), (\d+), "[^"]*",\s+"([^"]+)"\)', re.M)
MOVE = re.compile(r"^BRANCH_MOVE\((\w+), (\w+), (\w+)\)", re.M)


def table(root):
    text = (root / TABLE).read_text()
    lines = ["| state | what the branch waits for | limit | moves |", "|---|---|---|---|"]
    for state, seconds, awaits in STATE.findall(text):
        moves = [f"{event.lower().replace('_', ' ')} → {to}" for source, event, to in MOVE.findall(text) if source == state]
        lines.append(f"| {state} | {awaits} | {seconds + ' s' if seconds != '0' else ''} | {', '.join(moves)} |")
    return "\n".join(lines)
