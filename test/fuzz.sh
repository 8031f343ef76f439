#!/usr/bin/env bash
# Runs every fuzz target of the module, or of the folders named, FUZZTIME each
# (default 10s).
set -euo pipefail
cd "$(dirname "$0")/.."
time=${FUZZTIME:-10s}
n=0
where=('*_test.go')
[ $# -eq 0 ] || where=("${@/%//**_test.go}")
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# fuzz runs one target. The Go tool now and then reports the end of the time itself as
# a failure, "context deadline exceeded" and nothing else: all that the target was given
# has passed then. Whatever a target finds comes with its input, or more to say.
fuzz() {
	if go test -run '^$' -fuzz "^$1\$" -fuzztime "$time" -fuzzminimizetime 10x "$2" 2>&1 | tee "$log"; then
		return
	fi
	local said
	said=$(sed -n "/^--- FAIL: $1 /,/^FAIL\$/{//!p}" "$log")
	[ "$said" = "    context deadline exceeded" ] && ! grep -q -e 'Failing input' -e panic "$log" || return 1
	echo "--- $1: its time was over, no failure"
}

while IFS=: read -r file name; do
	echo "--- $name in $(dirname "$file") for $time"
	fuzz "$name" "./$(dirname "$file")"
	n=$((n + 1))
done < <(git grep -E '^func Fuzz' -- "${where[@]}" | sed -E 's/^([^:]+):func (Fuzz[A-Za-z0-9_]+).*/\1:\2/')
[ "$n" -gt 0 ] || { echo "no fuzz target found"; exit 1; }
echo "fuzz: $n targets, $time each, no failure"
