#!/bin/sh
# What happens inside the image while it is made, as root: the same in limpet-image's chroot and in the Dockerfile.
#
#   install.sh packages LIST...     installs the packages of the lists
#   install.sh part LIST...         likewise, on top of a finished base
#   install.sh finish               makes the base of the image out of a Debian root file system
#   install.sh compile SOURCE OUT   builds the guest and installs it below OUT
#   install.sh pip REQUIREMENTS     installs Python packages below /usr/local
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

LIBRARY=/usr/lib/limpet
SANDBOX_ID=20001

packages() {
    apt-get update
    sed -e 's/#.*//' -- "$@" | awk 'NF { print $1 }' |
        xargs apt-get install --yes --no-install-recommends
}

add_sandbox_user() {
    echo "user:x:$SANDBOX_ID:$SANDBOX_ID:sandboxed code:/home/user:/bin/bash" >>/etc/passwd
    echo "user:x:$SANDBOX_ID:" >>/etc/group
}

# Fonts that a text falls back to where the first one lacks its letters.
configure_fonts() {
    [ -e /etc/matplotlibrc ] || return 0
    echo "font.family: sans-serif, WenQuanYi Micro Hei" >>/etc/matplotlibrc
}

# The list of fonts, which matplotlib would otherwise make at the first figure of every container.
warm_font_cache() {
    python3 -c 'import matplotlib' 2>/dev/null || return 0
    mkdir -p "$LIBRARY/mpl"
    MPLCONFIGDIR=$LIBRARY/mpl MPLBACKEND=Agg python3 -c 'import matplotlib.pyplot'
    chmod -R a+rX "$LIBRARY/mpl"
}

# Some packages make links to the manual pages that they do not get, and fail without their directory.
part() {
    mkdir -p /usr/share/man/man1
    packages "$@"
    byte_compile
    clean
}

# All Python packages at once, on all processors. Of plotly's validators, one a file, a program loads a few of thousands.
byte_compile() {
    find /usr/lib/python3/dist-packages -name '*.py' ! -path '*/plotly/validators/*' -print0 |
        xargs -0 -n 500 -P "$(nproc)" python3 -m compileall -q
}

# What dpkg.cfg excludes, of packages that were there before it was.
remove_documents() {
    rm -rf /usr/share/man/* /usr/share/info/* /usr/share/locale/* /usr/share/lintian/* /usr/share/bug/*
    find /usr/share/doc -type f ! -name copyright -delete
}

finish() {
    remove_documents
    add_sandbox_user
    byte_compile
    mkdir -p /session /data /work /run/limpet /home/user
    configure_fonts
    warm_font_cache
    clean
}

clean() {
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/lib/dpkg/*-old /root/.cache
    find /var/log /tmp /var/tmp -xdev -mindepth 1 ! -path '/tmp/limpet*' -delete
    find / -xdev -perm /6000 -exec chmod ug-s {} +
}

compile() {
    build=$(mktemp -d)
    # As RelWithDebInfo, without what --strip removes again.
    cmake -S "$1" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE="-O2 -DNDEBUG" -DCMAKE_INSTALL_PREFIX=/usr \
        -DLIMPET_HOST=OFF -DLIMPET_CLIENT=OFF -DBUILD_TESTING=OFF
    cmake --build "$build" -- --quiet # what fails is the end of the log
    DESTDIR=$2 cmake --install "$build" --strip
    for program in limpet-guest limpet-interpreter; do
        test -x "$2$LIBRARY/$program" -o -h "$2$LIBRARY/$program" || { echo "the build made no $program" >&2; exit 1; }
    done
    find "$2$LIBRARY" -name '*.py' -exec python3 -m compileall -q -s "$2" -p / {} +
    rm -rf "$build"
}

pip_install() {
    python3 -m pip install --break-system-packages --no-cache-dir --root-user-action=ignore --requirement "$1"
    find /usr/local -xdev -perm /6000 -exec chmod ug-s {} +
}

command=$1
shift
case $command in
packages | part | finish | compile) "$command" "$@" ;;
pip) pip_install "$@" ;;
*)
    echo "install.sh: unknown command $command" >&2
    exit 2
    ;;
esac
