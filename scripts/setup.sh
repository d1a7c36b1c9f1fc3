#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what building needs, from the packages of the distribution (Debian 12 and 13, Ubuntu 24.04).
# Does nothing, and needs no network, when all of it is there; on another system it says what is missing.
#
#   scripts/setup.sh             to build and run
#   scripts/setup.sh check       also what the tests need; on Debian Chromium, too, which opens the pages of reports
#   scripts/setup.sh quickstart  also the text that the quick start trains on
#   scripts/setup.sh --list ...  print the packages and stop
set -eu
cd "$(dirname "$0")/.."

list=no
[ "${1:-}" = --list ] && { list=yes; shift; }
purpose=${1:-build}

packages='gcc libc6-dev meson ninja-build pkg-config flex bison
          libdnnl-dev libopenblas-dev libjansson-dev libxxhash-dev libsodium-dev libzstd-dev
          libpcre2-dev libjpeg-dev libpng-dev'
optional='' # tests that need it are skipped without it; only Debian has chromium as a package
case $purpose in
build) ;;
check)
    packages="$packages libcriterion-dev clang libclang-rt-dev patch"
    optional=libucx-dev
    grep -qs '^ID=debian' /etc/os-release && optional="$optional chromium"
    ;;
quickstart) packages="$packages fortunes fortunes-min" ;;
*) echo "setup.sh: unknown purpose \`$purpose'; there are build, check, quickstart" >&2; exit 2 ;;
esac
# shellcheck disable=SC2086
packages=$(printf '%s ' $packages)
[ $list = yes ] && { echo "$packages"; exit 0; }

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# The name of each thing on a system without apt: programs, then pkg-config modules, then headers.
elsewhere() {
    missing=''
    for program in cc meson ninja pkg-config flex bison; do
        command -v $program >/dev/null 2>&1 || missing="$missing $program"
    done
    for module in jansson libxxhash libsodium libzstd libpcre2-8 libjpeg libpng; do
        pkg-config --exists $module 2>/dev/null || missing="$missing $module"
    done
    header() { echo "#include <$1>" | cc -E -x c - >/dev/null 2>&1 || missing="$missing $2"; }
    header dnnl.h oneDNN
    header cblas.h OpenBLAS
    [ "$purpose" = check ] && header criterion/criterion.h Criterion
    if [ "$purpose" = quickstart ]; then
        [ -d "${FORTUNES:-/usr/share/games/fortunes}" ] || missing="$missing fortunes"
    fi
    [ -z "$missing" ] && return 0
    {
        echo "setup.sh: this system has no apt-get; please install, with their headers:"
        echo "   $missing"
        echo "  (the Debian packages are: $packages)"
    } >&2
    return 1
}

if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-query >/dev/null 2>&1; then
    elsewhere
    exit
fi

root=''
[ "$(id -u)" = 0 ] || root=sudo

# Installs those of the given packages that are missing. False: it could not.
install() {
    missing=''
    for package in "$@"; do
        installed "$package" || missing="$missing $package"
    done
    [ -z "$missing" ] && return 0
    if [ -n "$root" ] && ! command -v sudo >/dev/null 2>&1; then
        echo "setup.sh: missing packages; as root, run:  apt-get install$missing" >&2
        return 1
    fi
    log=build/setup.log
    mkdir -p build
    echo "setup.sh: installing$missing (log: $log)"
    # shellcheck disable=SC2086
    { $root apt-get update -q &&
        $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing; } >$log 2>&1 ||
        { tail -n 20 $log >&2; return 1; }
}

# shellcheck disable=SC2086
if ! install $packages; then
    echo "setup.sh: could not install$missing; is there a network, and are the package lists complete" \
         "(Ubuntu needs \`universe')?" >&2
    exit 1
fi
# shellcheck disable=SC2086
[ -z "$optional" ] || install $optional || echo "setup.sh: goes on without$missing: tests that need it are skipped" >&2
