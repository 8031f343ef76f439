#!/usr/bin/env bash
# Runs what stores documents on a real MongoDB: the store's suite, the state's,
# and every facade's. The server is the one that SLIPWAY_TEST_MONGO_URL names
# (mongodb://HOST:PORT/?replicaSet=NAME), or a mongod on PATH, started as a
# replica set of one member in a temporary folder. Prints the server's version
# first, and fails when there is none.
set -euo pipefail
cd "$(dirname "$0")/mongo"
export GOFLAGS=-mod=mod # the product may need newer modules since
exec go run ./withmongo bash -c '
	set -e
	go test -count=1 -timeout 20m -run TestStoreOnAServer .
	export SLIPWAY_TEST_STORE=$SLIPWAY_TEST_MONGO_URL
	cd ../.. && GOFLAGS= go test -count=1 -timeout 20m ./state/... ./apiserver/...
'
