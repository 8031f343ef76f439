#!/usr/bin/env bash
# Builds Debian packages into a folder, for each architecture slipway-controller,
# slipway-provisioner and slipway. The same sources give the same bytes. Needs
# dpkg-deb. Takes the variables of dist.sh.
#
# usage: packaging/deb.sh FOLDER
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/.."
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
# shellcheck source=packaging/common.sh
. packaging/common.sh

# put MODE FROM TO installs a file.
put() { install -D -m "$1" "$2" "$3"; }

# page ROOT SECTION FILE... installs manual pages.
pages() {
	local root=$1 section=$2 f
	shift 2
	for f in "$@"; do
		mkdir -p "$root/usr/share/man/man$section"
		gzip -9nc "$f" >"$root/usr/share/man/man$section/$(basename "$f").gz"
	done
}

# service ROOT PACKAGE USER ENV HOME adds a service, its user and its settings.
service() {
	local root=$1 package=$2 user=$3 env=$4 home=$5
	put 644 "packaging/systemd/$package.service" "$root/usr/lib/systemd/system/$package.service"
	mkdir -p "$root/usr/lib/sysusers.d" "$root/etc/slipway"
	echo "u $user - \"Slipway\" $home" >"$root/usr/lib/sysusers.d/$package.conf"
	put 644 "packaging/$env" "$root/etc/slipway/$env"
	echo "/etc/slipway/$env" >"$root/DEBIAN/conffiles"
	local script
	for script in preinst postinst prerm postrm; do
		sed -e "s|@UNIT@|$package.service|g; s|@USER@|$user|g; s|@HOME@|$home|g; s|@PACKAGE@|$package|g" "packaging/deb/$script" >"$root/DEBIAN/$script"
		chmod 755 "$root/DEBIAN/$script"
	done
}

# finish ROOT PACKAGE ARCH DEPENDS SHORT LONG writes what all packages have, and
# builds one.
finish() {
	local root=$1 package=$2 arch=$3 depends=$4 short=$5 long=$6
	local doc=$root/usr/share/doc/$package
	put 644 packaging/deb/copyright "$doc/copyright"
	gzip -9nc THIRD_PARTY_NOTICES >"$root/THIRD"
	mv "$root/THIRD" "$doc/THIRD_PARTY_NOTICES.gz"
	printf 'slipway (%s) unstable; urgency=medium\n\n  * Version %s; see CHANGELOG.md in the sources.\n\n -- Slipway project <slipway-project@users.noreply.github.com>  %s\n' \
		"$VERSION" "$VERSION" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.gz"
	chmod 644 "$doc"/*
	mkdir -p "$root/usr/share/lintian/overrides"
	echo "$package: statically-linked-binary" >"$root/usr/share/lintian/overrides/$package" # on purpose: it runs everywhere
	{
		printf 'Package: %s\nSource: slipway\nVersion: %s\nArchitecture: %s\n' "$package" "$VERSION" "$arch"
		printf 'Maintainer: Slipway project <slipway-project@users.noreply.github.com>\n'
		printf 'Installed-Size: %s\nSection: admin\nPriority: optional\n' "$(du -k -s --apparent-size "$root/usr" | cut -f1)"
		[ -z "$depends" ] || printf 'Depends: %s\n' "$depends"
		printf 'Homepage: https://%s\nDescription: %s\n%s\n' "$module" "$short" "$long"
	} >"$root/DEBIAN/control"
	(cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | sort | xargs md5sum >DEBIAN/md5sums)
	chmod 644 "$root/DEBIAN/control" "$root/DEBIAN/md5sums"
	find "$root" -print0 | xargs -0 touch --no-dereference --date "@$SOURCE_DATE_EPOCH"
	dpkg-deb --root-owner-group -Zxz -z1 --build "$root" "$out/${package}_${VERSION}_$arch.deb" >/dev/null
	echo "$out/${package}_${VERSION}_$arch.deb"
}

documents "$stage/doc"
man=$stage/doc/man
long=' Slipway turns declared machines into running ones: in LXD containers, on bare
 metal, or in a simulated rack.'
for arch in $ARCHES; do
	build "$arch"
	bin=$programs/$arch

	root=$stage/controller-$arch
	mkdir -p "$root/DEBIAN"
	put 755 "$bin/controllerd" "$root/usr/bin/controllerd"
	pages "$root" 8 "$man"/controllerd*.8
	service "$root" slipway-controller slipway controllerd.env /var/lib/slipway
	finish "$root" slipway-controller "$arch" passwd "controller of a Slipway site" "$long
 .
 This package has the controller, which keeps a site's state and serves its API."

	root=$stage/provisioner-$arch
	mkdir -p "$root/DEBIAN"
	put 755 "$bin/provisionerd" "$root/usr/bin/provisionerd"
	pages "$root" 8 "$man"/provisionerd*.8
	service "$root" slipway-provisioner slipway-provisioner provisionerd.env /var/lib/slipway-provisioner
	finish "$root" slipway-provisioner "$arch" passwd "provisioner of a Slipway site" "$long
 .
 This package has the provisioner, which starts and stops machines for a
 controller."

	root=$stage/slipway-$arch
	mkdir -p "$root/DEBIAN"
	put 755 "$bin/slipway" "$root/usr/bin/slipway"
	pages "$root" 1 "$man"/slipway*.1
	put 644 "$stage/doc/completions/slipway" "$root/usr/share/bash-completion/completions/slipway"
	put 644 "$stage/doc/completions/_slipway" "$root/usr/share/zsh/vendor-completions/_slipway"
	put 644 "$stage/doc/completions/slipway.fish" "$root/usr/share/fish/vendor_completions.d/slipway.fish"
	finish "$root" slipway "$arch" "" "command to ask a Slipway site for machines" "$long
 .
 This package has the command that people ask for machines with."
done
