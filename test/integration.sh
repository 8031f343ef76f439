#!/usr/bin/env bash
# Runs what stores documents on a real MongoDB, in databases of their own: the
# store's suite, the state's, every facade's, and the demo, whose programs are in
# bin/. The server is the one that SLIPWAY_TEST_MONGO_URL names
# (mongodb://HOST:PORT/?replicaSet=NAME), or a mongod on PATH, started as a
# replica set of one member in a temporary folder. Prints the server's version
# first, and fails when there is none.
set -euo pipefail
cd "$(dirname "$0")/mongo"
# The product may need newer modules since: go.mod is followed in a copy.
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp go.mod go.sum "$dir"
export GOFLAGS="-mod=mod -modfile=$dir/go.mod"
go run ./withmongo bash -c '
	set -e
	go test -count=1 -timeout 20m -run TestStoreOnAServer .
	export SLIPWAY_TEST_STORE=$SLIPWAY_TEST_MONGO_URL
	cd ../.. && GOFLAGS= go test -count=1 -timeout 20m ./state/... ./apiserver/...
	test/demo.sh "$SLIPWAY_TEST_MONGO_URL"
'
