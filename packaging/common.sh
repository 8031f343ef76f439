# What dist.sh and deb.sh share. They run it in the root of the sources.
# shellcheck shell=bash
export LC_ALL=C TZ=UTC
umask 022
VERSION=${VERSION:-$(sed -n 's/^var Version = "\(.*\)"$/\1/p' internal/buildinfo/buildinfo.go)}
REVISION=${REVISION-$(git rev-parse --short=12 HEAD 2>/dev/null || true)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1767225600)}
ARCHES=${ARCHES:-amd64 arm64}
export SOURCE_DATE_EPOCH
[ -n "$VERSION" ] || { echo "no VERSION" >&2; exit 1; }

module=github.com/slipway-project/slipway
ldflags="-s -w -buildid= -X $module/internal/buildinfo.Version=$VERSION -X $module/internal/buildinfo.commit=$REVISION"

# build ARCH FOLDER builds the programs for an architecture.
build() {
	GOOS=linux GOARCH=$1 GOAMD64=v1 GOARM64=v8.0 CGO_ENABLED=0 GOFLAGS=-mod=readonly \
		go build -trimpath -buildvcs=false -ldflags "$ldflags" -o "$2/" ./cmd/controllerd ./cmd/provisionerd ./cmd/slipway
}

# documents FOLDER writes manual pages and completions, which are the same for
# every architecture.
documents() {
	mkdir -p "$1/bin" "$1/man" "$1/completions"
	GOOS='' GOARCH='' build "$(go env GOHOSTARCH)" "$1/bin"
	local p
	for p in controllerd provisionerd slipway; do
		env -u SLIPWAY_LOGGING_CONFIG "$1/bin/$p" manual "$1/man"
	done
	"$1/bin/slipway" completion bash >"$1/completions/slipway"
	"$1/bin/slipway" completion zsh >"$1/completions/_slipway"
	"$1/bin/slipway" completion fish >"$1/completions/slipway.fish"
}
