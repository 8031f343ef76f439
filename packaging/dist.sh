#!/usr/bin/env bash
# Builds the archives of a release into a folder, for each architecture one with
# all programs and one with the agent that machines download. The same sources
# give the same bytes, in any folder and at any time.
#
# usage: packaging/dist.sh FOLDER
# VERSION          what the programs say they are; default: internal/buildinfo
# REVISION         of the sources; default: git, or nothing
# SOURCE_DATE_EPOCH  date of all files; default: that of the last commit
# ARCHES           default: amd64 arm64
# PROGRAMS         folder that keeps the built programs, of one version only;
#                  default: they are built anew
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/.."
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
# shellcheck source=packaging/common.sh
. packaging/common.sh

archive() { # file folder member...
	local file=$1 folder=$2
	shift 2
	tar --create --directory "$folder" --format ustar --sort name --mtime "@$SOURCE_DATE_EPOCH" \
		--owner 0 --group 0 --numeric-owner --mode 'u=rwX,go=rX' "$@" | gzip -6n >"$out/$file"
}

documents "$stage/doc"
made=()
for arch in $ARCHES; do
	name=slipway-$VERSION-linux-$arch
	mkdir -p "$stage/$name"
	build "$arch"
	cp -r "$programs/$arch"/* README.md LICENSE THIRD_PARTY_NOTICES "$stage/doc/man" "$stage/doc/completions" packaging/systemd "$stage/$name"
	archive "$name.tar.gz" "$stage" "$name"
	# What "slipway upload-agent" takes: the program is at the root.
	archive "slipway-agent-$VERSION-linux-$arch.tar.gz" "$stage/$name" provisionerd LICENSE THIRD_PARTY_NOTICES
	made+=("$name.tar.gz" "slipway-agent-$VERSION-linux-$arch.tar.gz")
done
cd "$out"
printf '%s\n' "${made[@]}" | LC_ALL=C sort | xargs sha256sum >SHA256SUMS
cat SHA256SUMS
