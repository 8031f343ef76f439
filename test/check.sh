#!/usr/bin/env bash
# The static checks. The first argument is the linter to run, with its version.
set -euo pipefail
cd "$(dirname "$0")/.."
staticcheck=$1

bad=$(git ls-files -z -- '*.go' | xargs -0 gofmt -l)
[ -z "$bad" ] || { echo "not formatted (run gofmt -w):"; echo "$bad"; exit 1; }

# A program that was built by hand does not belong into the repository: nothing in it is nearly as big.
big=$(git ls-files -z | xargs -0 sh -c 'find "$@" -maxdepth 0 -size +1M' find)
[ -z "$big" ] || { echo "too big to be a source:"; echo "$big"; exit 1; }

go vet ./...
go vet -tags e2e ./...
go run "$staticcheck" -tags e2e ./...

go mod tidy -diff || { echo "go.mod or go.sum is not tidy: run go mod tidy"; exit 1; }

go test -count=1 ./internal/floors ./internal/doccheck
# Every method and every route is in the tables of who is refused what.
go test -count=1 -run '^Test(Facades|Routes|WhoMayCall|Refusals|RefusalsOfRoutes|EveryMethodHasAnEffect)$' ./apiserver ./internal/site

echo "check: all clean"
