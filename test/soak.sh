#!/usr/bin/env bash
# The long forms of the crash, fault and fuzz tests. SOAK=n multiplies rounds and
# fuzz time; 1 is the documented amount.
set -euo pipefail
cd "$(dirname "$0")/.."
export SOAK=${SOAK:-1}
SLIPWAY_ROUNDS_SCALE=soak go test -tags "e2e soak" -count=1 -timeout 24h -v ./internal/e2e/... 2>&1 | test/quiet.sh
FUZZTIME=$((60 * SOAK))s test/fuzz.sh
