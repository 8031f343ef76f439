#!/usr/bin/env bash
# The MongoDB store without a MongoDB: the official driver judges our double of
# a replica set, FerretDB our translation of the protocol, and state, facades
# and the demo run on the double.
set -euo pipefail
cd "$(dirname "$0")/.."
make --silent build
echo "no mongod here: all of this runs on the double of a replica set, and on FerretDB"
dir=$(mktemp -d)
double=
cleanup() {
	[ -z "$double" ] || kill "$double" 2>/dev/null || true
	wait 2>/dev/null || true
	rm -rf "$dir"
}
trap cleanup EXIT
# The nested module follows the product's in a copy of its go.mod.
cp test/mongo/go.mod test/mongo/go.sum "$dir"
(cd test/mongo && GOFLAGS="-mod=mod -modfile=$dir/go.mod" go test -count=1 -timeout 20m ./...)
test/demo.sh mongo

echo "make integration, with the double in the server's place"
: >"$dir/out" # the process may be slower than the first look
bin/mongodouble --listen 127.0.0.1:0 --members 3 >"$dir/out" 2>"$dir/err" &
double=$!
limit=$((SECONDS + 60))
until grep -q ^ready "$dir/out"; do
	if [ $SECONDS -ge $limit ] || ! kill -0 "$double" 2>/dev/null; then
		echo "the double of a replica set is not ready: $(tail -n 1 "$dir/err")" >&2
		exit 1
	fi
	sleep 0.1
done
SLIPWAY_TEST_MONGO_URL="mongodb://$(sed -n 's/^ready //p' "$dir/out")/?replicaSet=rs0" test/integration.sh
