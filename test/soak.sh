#!/usr/bin/env bash
# The long forms of the crash, fault and fuzz tests. SOAK=n multiplies rounds and
# fuzz time; 1 is the documented amount. What they need from Debian is installed first,
# as for the end-to-end parts. One package runs at a time: virtual machines want
# the processor for themselves.
set -euo pipefail
cd "$(dirname "$0")/.."
export SOAK=${SOAK:-1}
# shellcheck disable=SC2046 # a list of words
test/apt-install.sh $(test/e2e.sh --packages) lvm2 openssl sbsigntool
go test -tags e2e -count=1 -p 1 -timeout 24h -v ./internal/e2e/... 2>&1 | test/quiet.sh
FUZZTIME=$(awk "BEGIN {print int(60 * $SOAK) + (60 * $SOAK < 1)}")s test/fuzz.sh
