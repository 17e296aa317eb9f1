# A Docker Engine of our own for a machine where none answers. Sourced after lib.sh, whose rules hold here.
#
# docker_start DATA starts one with its data in DATA, which stays so that images are not imported each time, and
# sets DOCKER_SOCKET; docker_stop ends it. Nothing of it leaves this machine: no bridge, no firewall rules.

DOCKERD=''     # its pid
DOCKER_RUN=''  # where its sockets are

docker_answers() { curl --silent --fail --max-time 5 --unix-socket "$1" http://docker/_ping >/dev/null 2>&1; }

docker_start() {
    local data=$1
    is_root || die "no Docker engine answers on $DOCKER_SOCKET, and starting one needs root"
    DOCKER_RUN=$(mktemp -d /tmp/limpet-docker.XXXXXX)
    DOCKER_SOCKET=$DOCKER_RUN/docker.sock
    chmod 711 "$DOCKER_RUN" # the socket has a mode of its own
    mkdir -p -- "$data"
    say "  No Docker engine answers: starting one for this run, with its data in $data"
    dockerd --host "unix://$DOCKER_SOCKET" --data-root "$data" --exec-root "$DOCKER_RUN/exec" \
        --pidfile "$DOCKER_RUN/pid" --bridge none --iptables=false --ip6tables=false \
        >"$DOCKER_RUN/log" 2>&1 </dev/null &
    DOCKERD=$!
    step "waiting for it" docker_wait
}

docker_wait() {
    local attempt
    for attempt in {1..120}; do
        docker_answers "$DOCKER_SOCKET" && return
        kill -0 "$DOCKERD" 2>/dev/null || break
        sleep 0.5
    done
    cat -- "$DOCKER_RUN/log"
    echo "dockerd did not answer after $attempt attempts"
    return 1
}

docker_stop() {
    [[ -n $DOCKERD ]] || return 0
    kill "$DOCKERD" 2>/dev/null || true
    wait "$DOCKERD" 2>/dev/null || true
    rm -rf --one-file-system -- "$DOCKER_RUN"
    DOCKERD=''
    say "  The Docker engine that was started for this is stopped again; its images stay in its data directory."
}
