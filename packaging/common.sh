# What dist.sh and deb.sh share. They run it in the root of the sources.
# They have made the folder $stage, which they remove.
# shellcheck shell=bash
: "${stage:?is the folder of the script that runs this}"
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

# A folder that is given is kept, so that the next script need not build again.
programs=${PROGRAMS:-}
[ -n "$programs" ] || programs=$stage/programs

# build ARCH builds the programs for an architecture into $programs/ARCH, unless
# they are there.
build() {
	[ ! -e "$programs/$1" ] || return 0
	rm -rf "$programs/$1.part"
	mkdir -p "$programs/$1.part"
	GOOS=linux GOARCH=$1 GOAMD64=v1 GOARM64=v8.0 CGO_ENABLED=0 GOFLAGS=-mod=readonly \
		go build -trimpath -buildvcs=false -ldflags "$ldflags" -o "$programs/$1.part/" ./cmd/controllerd ./cmd/provisionerd ./cmd/slipway
	mv "$programs/$1.part" "$programs/$1"
}

# documents FOLDER writes manual pages and completions, which are the same for
# every architecture.
documents() {
	mkdir -p "$1/man" "$1/completions"
	local p bin
	bin=$programs/$(go env GOHOSTARCH)
	build "$(go env GOHOSTARCH)"
	for p in controllerd provisionerd slipway; do
		env -u SLIPWAY_LOGGING_CONFIG "$bin/$p" manual "$1/man"
	done
	"$bin/slipway" completion bash >"$1/completions/slipway"
	"$bin/slipway" completion zsh >"$1/completions/_slipway"
	"$bin/slipway" completion fish >"$1/completions/slipway.fish"
}
