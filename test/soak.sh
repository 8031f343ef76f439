#!/usr/bin/env bash
# The long forms of the crash, fault and fuzz tests. SOAK=n multiplies rounds and
# fuzz time; 1 is the documented amount.
set -euo pipefail
cd "$(dirname "$0")/.."
export SOAK=${SOAK:-1}
go test -tags e2e -count=1 -timeout 24h -v ./internal/e2e/... 2>&1 | test/quiet.sh
FUZZTIME=$(awk "BEGIN {print int(60 * $SOAK) + (60 * $SOAK < 1)}")s test/fuzz.sh
