#!/usr/bin/env bash
# The MongoDB store without a MongoDB: the official driver judges our double of
# a replica set, FerretDB our translation of the protocol, and state, facades
# and the demo run on the double.
set -euo pipefail
cd "$(dirname "$0")/.."
echo "no mongod here: all of this runs on the double of a replica set, and on FerretDB"
# The nested module follows the product's: its go.mod is a copy for this run.
(cd test/mongo && cp go.mod go.mod.bak && cp go.sum go.sum.bak &&
	trap 'mv go.mod.bak go.mod; mv go.sum.bak go.sum' EXIT &&
	GOFLAGS=-mod=mod go test -count=1 -timeout 10m ./...)
test/demo.sh mongo

echo "make integration, with the double in the server's place"
dir=$(mktemp -d)
bin/mongodouble --listen 127.0.0.1:0 --members 3 >"$dir/out" &
double=$!
trap 'kill $double; rm -rf "$dir"' EXIT
for _ in $(seq 100); do
	grep -q ^ready "$dir/out" && break
	sleep 0.1
done
SLIPWAY_TEST_MONGO_URL="mongodb://$(sed -n 's/^ready //p' "$dir/out")/?replicaSet=rs0" test/integration.sh
