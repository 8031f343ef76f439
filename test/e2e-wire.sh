#!/usr/bin/env bash
# Hostile input to everything that parses what clients send, 10 s a target.
set -euo pipefail
cd "$(dirname "$0")/.."
FUZZTIME=${FUZZTIME:-10s} test/fuzz.sh rpc apiserver core
