#!/usr/bin/env bash
# Installs Debian packages. A hiccup of the network is tried again, another apt at
# work is waited for; a package that does not exist is not tried again.
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: test/apt-install.sh PACKAGE..." >&2; exit 2; }

missing=()
for p in "$@"; do
	status=$(dpkg-query -W -f='${Status}' "$p" 2>/dev/null || true)
	[[ $status == *'ok installed'* ]] || missing+=("$p")
done
[ ${#missing[@]} -gt 0 ] || exit 0
[ "$(id -u)" = 0 ] || { echo "these packages are missing and only root can install them: ${missing[*]}" >&2; exit 1; }

export DEBIAN_FRONTEND=noninteractive
# Without the mode "any" an update that could not fetch some lists is a success.
apt=(apt-get -y -q -o Acquire::Retries=3 -o APT::Update::Error-Mode=any -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300)
said=$(mktemp)
# No service of a package may start on this machine.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod +x "$policy"
	trap 'rm -f "$policy" "$said"' EXIT
else
	trap 'rm -f "$said"' EXIT
fi

# install tries both steps once.
install() {
	"${apt[@]}" update >"$said" 2>&1 && "${apt[@]}" install --no-install-recommends "${missing[@]}" >"$said" 2>&1
}
tries=0
deadline=$((SECONDS + 300))
until install </dev/null; do
	if grep -q 'Could not get lock\|Unable to lock' "$said" && [ $SECONDS -lt $deadline ]; then
		echo "another apt is at work: waiting" >&2
		sleep 5
		continue
	fi
	tries=$((tries + 1))
	echo "apt-get failed (try $tries of 3)" >&2
	if [ $tries -ge 3 ] || grep -q 'Unable to locate package' "$said"; then
		cat "$said" >&2
		echo "cannot install ${missing[*]}" >&2
		exit 1
	fi
	sleep 5
done
