#!/usr/bin/env bash
# All benchmarks: those of the packages, and a whole site under load. The argument is
# the file that gets the figures; SCALE=small takes about a minute for the site
# and runs each of the packages' benchmarks a few times only.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1
scale=${SCALE:-full}
benchtime=1s
[ "$scale" = small ] && benchtime=3x

{
	go test -run '^$' -bench . -benchmem -count 1 -benchtime "$benchtime" -timeout 60m ./...
	if [ "$scale" = full ] && command -v qemu-system-x86_64 >/dev/null && [ -x /bin/busybox ]; then # the part install of test/e2e.sh installs them
		go test -tags e2e -run '^$' -bench VirtualDisk -benchtime 1x -timeout 90m ./internal/e2e/install
	fi
	go run ./internal/bench -programs "${BIN:-bin}" -scale "$scale"
} | grep -v 'no test files' | tee "$out"
