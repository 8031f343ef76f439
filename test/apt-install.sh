#!/usr/bin/env bash
# Installs Debian packages. A hiccup of the network is tried again; a package
# that does not exist is not.
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: test/apt-install.sh PACKAGE..." >&2; exit 2; }

missing=()
for p in "$@"; do
	dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
done
[ ${#missing[@]} -gt 0 ] || exit 0
[ "$(id -u)" = 0 ] || { echo "these packages are missing and only root can install them: ${missing[*]}" >&2; exit 1; }

export DEBIAN_FRONTEND=noninteractive
apt=(apt-get -y -q -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120)
# No service of a package may start on this machine.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod +x "$policy"
	trap 'rm -f "$policy"' EXIT
fi
for try in 1 2 3; do
	if "${apt[@]}" update >/dev/null && "${apt[@]}" install --no-install-recommends "${missing[@]}" >/tmp/apt-install.$$ 2>&1; then
		rm -f /tmp/apt-install.$$
		exit 0
	fi
	grep -q 'Unable to locate package' /tmp/apt-install.$$ 2>/dev/null && break
	echo "apt-get failed (try $try of 3)" >&2
	sleep 5
done
cat /tmp/apt-install.$$ >&2 || true
rm -f /tmp/apt-install.$$
exit 1
