#!/usr/bin/env bash
# Prints the licences of the modules that the commands are linked with.
set -euo pipefail
cd "$(dirname "$0")/.."
echo "Slipway is linked with the modules below. Each is under the licence that follows its name."
go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/... | sort -u |
	while read -r path version dir; do
		printf '\n%s\n%s %s\n\n' "--------------------------------------------------------------------------------" "$path" "$version"
		found=0
		for f in "$dir"/[Ll][Ii][Cc][Ee][NnSs]* "$dir"/COPYING* "$dir"/NOTICE*; do
			[ -f "$f" ] || continue
			case "$f" in *.go) continue ;; esac
			cat "$f"
			found=1
		done
		[ "$found" = 1 ] || { echo "no licence file in $path" >&2; exit 1; }
	done
