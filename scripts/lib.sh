# shellcheck shell=bash
# Shell helpers shared by the scripts and by limpet-image. Sourced by bash with `set -euo pipefail`.
#
# step TITLE COMMAND... runs a command with its output in $LOG and says what runs and how long it took; when it
# fails, the script ends with the last lines of the log. Set LOG before the first step. An EXIT trap of the
# script's own replaces the one set here and calls step_report itself.
#
# beside COMMAND... begins a part that runs beside others; parts_wait TITLE waits for all, and parts_end ends them.
#
# PROGRESS=plain prints a line when a step begins and one when it ends; PROGRESS=beside does so above the live line of
# the script that began the part. Otherwise a terminal gets one live line.

if [[ -t 1 && -z ${NO_COLOR:-} && ${PROGRESS:-auto} != plain ]]; then
    BOLD=$'\e[1m' DIM=$'\e[2m' RED=$'\e[31m' GREEN=$'\e[32m' RESET=$'\e[0m' CLEAR=$'\r\e[K' LIVE=1
else
    BOLD='' DIM='' RED='' GREEN='' RESET='' CLEAR='' LIVE=''
fi
[[ ${PROGRESS:-} != beside ]] || LIVE=''

STEP=''       # title of the running step
STEP_BEGIN=0  # $SECONDS when it began
TICKER=''     # pid of what redraws the live line
PART_LOGS=()  # what parts write to beside $LOG
PARTS=()      # pids of parts that run, each of them that of its process group too
SUBJECT=${0##*/}

say() { printf '%s%s\n' "$CLEAR" "$*"; }
heading() { printf '%s\n%s%s%s\n' "$CLEAR" "$BOLD" "$*" "$RESET"; }
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

# The live line: title, time, and what the command says last, in the log that was written last. Ends with the script
# that started it.
step_tick() {
    local width last log
    while kill -0 $$ 2>/dev/null; do
        width=$(($(tput cols 2>/dev/null || echo 80) - ${#STEP} - 20))
        log=$(ls -t -- "$LOG" "${PART_LOGS[@]}" 2>/dev/null | head -n 1) || true
        last=$(tail -c 400 -- "$log" 2>/dev/null | tr '\r\t' '\n ' | grep -v '^== ' | tail -n 1 | tr -cd '[:print:]') || true
        ((width > 10)) || last=''
        printf '\r\e[K  %s … %s  %s%s%s' "$STEP" "$(elapsed $((SECONDS - STEP_BEGIN)))" "$DIM" \
            "${last:0:$((width > 10 ? width : 0))}" "$RESET"
        sleep 1
    done
}

step_begin() {
    STEP=$1 STEP_BEGIN=$SECONDS
    if [[ -n $LIVE ]]; then
        step_tick &
        TICKER=$!
    else
        say "  $STEP …"
    fi
}

step_end() {
    step_stop_ticker
    say "  $GREEN✓$RESET $STEP  $DIM$(elapsed $((SECONDS - STEP_BEGIN)))$RESET"
    STEP=''
}

step() {
    printf '== %s\n' "$1" >>"$LOG"
    step_begin "$1"
    shift
    (
        trap 'exit 143' TERM # or this script would have "Terminated" said
        "$@"
    ) >>"$LOG" 2>&1 </dev/null
    step_end
}

# For the EXIT trap: says which step the script died in. Argument: the exit status.
step_report() {
    step_stop_ticker
    [[ -n $STEP ]] || return 0
    local how=failed
    (($1 != 129 && $1 != 130 && $1 != 143)) || how=interrupted
    say "  $RED✗$RESET $STEP  $how after $(elapsed $((SECONDS - STEP_BEGIN)))"
    if [[ $how == failed && -f $LOG ]]; then
        printf '%s: last lines of %s:\n' "$SUBJECT" "$LOG" >&2
        awk '/^== / { n = 0 } { line[n++] = $0 } END { for (i = n > 25 ? n - 25 : 0; i < n; i++) print "    " line[i] }' \
            "$LOG" >&2
    fi
}

# In a process group of its own: Ctrl-C reaches the script alone, which ends the part as it ends it for other reasons.
beside() {
    set -m
    (
        set +m
        PARTS=() PROGRESS=beside LIVE=''
        export PROGRESS
        trap 'step_report $?' EXIT
        trap 'trap "" TERM; exit 143' TERM
        "$@"
    ) </dev/null &
    set +m
    PARTS+=($!)
}

# Where one part fails, the others are ended and the script with them: the part has said why.
parts_wait() {
    local ended part left
    step_begin "$1"
    while ((${#PARTS[@]})); do
        wait -n -p ended "${PARTS[@]}" || { STEP='' && exit 1; }
        left=()
        for part in "${PARTS[@]}"; do
            ((part == ended)) || left+=("$part")
        done
        PARTS=("${left[@]}")
    done
    step_end
}

# Asks until all have ended: bash forgets a signal that reaches a subshell before its traps are set.
parts_end() {
    local part left=1
    while ((left)); do
        left=0
        for part in "${PARTS[@]}"; do
            kill -TERM -- "-$part" 2>/dev/null || true
            ! kill -0 "$part" 2>/dev/null || left=1
        done
        ((left == 0)) || sleep 0.05
    done
    PARTS=()
}

trap 'step_report $?' EXIT
