#!/usr/bin/env bash
# Runs every fuzz target of the module, or of the folders named, FUZZTIME each
# (default 10s).
set -euo pipefail
cd "$(dirname "$0")/.."
time=${FUZZTIME:-10s}
n=0
where=('*_test.go')
[ $# -eq 0 ] || where=("${@/%//**_test.go}")
while IFS=: read -r file name; do
	echo "--- $name in $(dirname "$file") for $time"
	go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 10x "./$(dirname "$file")"
	n=$((n + 1))
done < <(git grep -E '^func Fuzz' -- "${where[@]}" | sed -E 's/^([^:]+):func (Fuzz[A-Za-z0-9_]+).*/\1:\2/')
[ "$n" -gt 0 ] || { echo "no fuzz target found"; exit 1; }
echo "fuzz: $n targets, $time each, no failure"
