# shellcheck shell=bash
# Shell helpers shared by the scripts and by limpet-image. Sourced by bash with `set -euo pipefail`.
#
# step TITLE COMMAND... runs a command with its output in $LOG and says what runs and how long it took; when it
# fails, the script ends with the last lines of the log. Set LOG before the first step. An EXIT trap of the
# script's own replaces the one set here and calls step_report itself.

if [[ -t 1 && -z ${NO_COLOR:-} && ${PROGRESS:-auto} != plain ]]; then
    BOLD=$'\e[1m' DIM=$'\e[2m' RED=$'\e[31m' GREEN=$'\e[32m' RESET=$'\e[0m' LIVE=1
else
    BOLD='' DIM='' RED='' GREEN='' RESET='' LIVE=''
fi

STEP=''       # title of the running step
STEP_BEGIN=0  # $SECONDS when it began
TICKER=''     # pid of what redraws the live line
SUBJECT=${0##*/}

say() { printf '%s\n' "$*"; }
heading() { printf '\n%s%s%s\n' "$BOLD" "$*" "$RESET"; }
warn() { printf '%s: %s\n' "$SUBJECT" "$*" >&2; }

die() {
    warn "$*"
    exit 1
}

# elapsed SECONDS → "7 s" or "2 min 05 s"
elapsed() {
    if (($1 < 60)); then
        printf '%d s' "$1"
    else
        printf '%d min %02d s' $(($1 / 60)) $(($1 % 60))
    fi
}

is_root() { ((EUID == 0)); }

# list_entries FILE... prints the lines of lists without comments and empty lines.
list_entries() { sed -e 's/#.*//' -e 's/[[:space:]]*$//' -e '/^$/d' -- "$@"; }

step_stop_ticker() {
    [[ -n $TICKER ]] || return 0
    kill "$TICKER" 2>/dev/null || true
    wait "$TICKER" 2>/dev/null || true
    TICKER=''
}

# The live line: title, time, and what the command says last. Ends with the script that started it.
step_tick() {
    local width last
    while kill -0 $$ 2>/dev/null; do
        width=$(($(tput cols 2>/dev/null || echo 80) - ${#STEP} - 20))
        last=$(tail -c 400 -- "$LOG" 2>/dev/null | tr '\r\t' '\n ' | grep -v '^== ' | tail -n 1 | tr -cd '[:print:]') || true
        ((width > 10)) || last=''
        printf '\r\e[K  %s … %s  %s%s%s' "$STEP" "$(elapsed $((SECONDS - STEP_BEGIN)))" "$DIM" \
            "${last:0:$((width > 10 ? width : 0))}" "$RESET"
        sleep 1
    done
}

step() {
    STEP=$1 STEP_BEGIN=$SECONDS
    shift
    printf '== %s\n' "$STEP" >>"$LOG"
    if [[ -n $LIVE ]]; then
        step_tick &
        TICKER=$!
    else
        printf '  %s …\n' "$STEP"
    fi
    ("$@") >>"$LOG" 2>&1 </dev/null
    step_stop_ticker
    printf '%s  %s✓%s %s  %s%s%s\n' "${LIVE:+$'\r\e[K'}" "$GREEN" "$RESET" "$STEP" "$DIM" \
        "$(elapsed $((SECONDS - STEP_BEGIN)))" "$RESET"
    STEP=''
}

# For the EXIT trap: says which step the script died in. Argument: the exit status.
step_report() {
    step_stop_ticker
    [[ -n $STEP ]] || return 0
    local how=failed
    (($1 != 130 && $1 != 143)) || how=interrupted
    printf '%s  %s✗%s %s  %s after %s\n' "${LIVE:+$'\r\e[K'}" "$RED" "$RESET" "$STEP" "$how" \
        "$(elapsed $((SECONDS - STEP_BEGIN)))"
    if [[ $how == failed && -f $LOG ]]; then
        printf '%s: last lines of %s:\n' "$SUBJECT" "$LOG" >&2
        awk '/^== / { n = 0 } { line[n++] = $0 } END { for (i = n > 25 ? n - 25 : 0; i < n; i++) print "    " line[i] }' \
            "$LOG" >&2
    fi
}

trap 'step_report $?' EXIT
