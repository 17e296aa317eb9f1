#!/bin/sh
# An analysis of several steps from the command line: a checkpoint before each risky one, a rollback where that went
# wrong, and a report in HTML at the end.
#
# usage: examples/analysis.sh [REPORT]      by default penguins.html in the current directory
#
# Needs `limpet` in PATH; pandas and matplotlib are in the sandbox. The same from Python: examples/analysis.py.
set -eu

data=$(cd "$(dirname "$0")/data" && pwd)
report=${1:-penguins.html}
session=penguins-$$
work=$(mktemp -d)
trap 'limpet close "$session" || true; rm -rf "$work"' EXIT

# Runs the code on standard input in the session; the variables stay from step to step.
step() {
    printf '%s\n' "== $1" >&2
    shift
    limpet run -q -s "$session" "$@" -
}

limpet open --data "$data" --memory 512m "$session"

step "load the table" <<'EOF'
import pandas as pd
penguins = pd.read_csv("/data/penguins.csv")
print(len(penguins), "rows,", int(penguins.isna().any(axis=1).sum()), "of them incomplete")
EOF

# A step that fails halfway through, and has changed the table by then.
limpet checkpoint --name loaded "$session"
if ! step "drop what is incomplete, in the wrong way" 2>"$work/error" <<'EOF'
penguins.drop(columns="sex", inplace=True)
penguins.dropna(subset=["wingspan_mm"], inplace=True)
EOF
then
    printf 'it failed: %s\n' "$(tail -n 1 "$work/error")"
    limpet rollback "$session" loaded
fi

step "drop what is incomplete" <<'EOF'
penguins = penguins.dropna().reset_index(drop=True)
print(len(penguins), "complete rows, with", ", ".join(penguins.columns))
EOF

# The same in one call: unless it ends well, it leaves nothing behind.
step "a step that undoes itself" --on-error rollback 2>"$work/undone" <<'EOF' || tail -n 1 "$work/undone"
penguins["body_mass_g"] = penguins["body_mass_g"] / 1000
penguins["body_mass_g"].loc["no such row"]
EOF

# A step that kills the interpreter. Nobody has to roll back: the session is where it was before.
status=0
step "crash" 2>"$work/crash" <<'EOF' || status=$?
import ctypes
ctypes.string_at(0)
EOF
[ "$status" -eq 137 ]
crash=$(grep '^limpet: crashed' "$work/crash")
printf '%s\n' "$crash"

step "summarise, and draw" <<'EOF'
import os
import matplotlib.pyplot as plt
summary = penguins.groupby("species")[["bill_length_mm", "flipper_length_mm", "body_mass_g"]].mean().round(1)
summary["count"] = penguins["species"].value_counts()
figure, axes = plt.subplots(figsize=(7, 4))
for species, group in penguins.groupby("species"):
    axes.scatter(group["flipper_length_mm"], group["body_mass_g"], s=12, label=species)
axes.set(xlabel="flipper length (mm)", ylabel="body mass (g)")
axes.legend()
os.makedirs("/session/artifacts", exist_ok=True)
figure.savefig("/session/artifacts/penguins.png", dpi=110)
summary.to_csv("/session/artifacts/summary.csv")
print(summary)
EOF

# What a step prints is data for the next command.
limpet get "$session:artifacts/penguins.png" "$work/penguins.png"
table=$(step "the table for the report" <<'EOF'
print(summary.to_html(border=0))
EOF
)
cat >"$report" <<EOF
<!doctype html>
<meta charset="utf-8">
<title>Palmer penguins</title>
<h1>Palmer penguins</h1>
$table
<img alt="body mass over flipper length" src="data:image/png;base64,$(base64 <"$work/penguins.png" | tr -d '\n')">
<h2>What went wrong on the way, and did no harm</h2>
<pre>$(cat "$work/error" "$work/crash" | sed 's/&/\&amp;/g; s/</\&lt;/g')</pre>
EOF
printf 'the report is in %s\n' "$report"
