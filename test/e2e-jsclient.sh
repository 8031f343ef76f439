#!/usr/bin/env bash
# A client that others wrote, from npm, against a controller of ours.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v node >/dev/null && command -v npm >/dev/null || test/apt-install.sh nodejs npm
go test -tags e2e -count=1 -timeout 20m -v ./internal/e2e/jsclient/... 2>&1 | test/quiet.sh
