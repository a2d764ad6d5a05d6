#!/bin/sh
# need.sh THING=PACKAGE...: says which of these things are missing, and the command that installs their packages. With INSTALL=yes it
# installs them, with apt-get, and only those. A THING is a command, or a file when it begins with a slash.
set -eu
missing=
for pair in "$@"; do
        thing=${pair%%=*}
        package=${pair#*=}
        case $thing in
        /*) [ -e "$thing" ] || missing="$missing $package" ;;
        *) command -v "$thing" > /dev/null 2>&1 || missing="$missing $package" ;;
        esac
done
[ -n "$missing" ] || exit 0
if [ "${INSTALL:-no}" != yes ]; then
        echo "missing:$missing" >&2
        echo "to install them on Debian or Ubuntu: sudo apt-get install$missing" >&2
        exit 1
fi
echo "missing:$missing"
if ! command -v apt-get > /dev/null 2>&1; then
        echo "apt-get is not here to install them; please install:$missing" >&2
        exit 1
fi
sudo=
if [ "$(id -u)" != 0 ]; then
        sudo=sudo
        if ! command -v sudo > /dev/null 2>&1; then
                echo "not root, and sudo is not here; as root: apt-get install$missing" >&2
                exit 1
        fi
fi
# shellcheck disable=SC2086 # a list of packages, and a sudo that may be nothing
{
        $sudo apt-get update -q &&
                $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
} || {
        echo "apt-get could not install:$missing" >&2
        exit 1
}
