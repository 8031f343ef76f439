#!/usr/bin/env bash
# Runs the end-to-end tests: real processes, real daemons, virtual machines.
# Without an argument all parts run; with names, only those. What a part needs
# from Debian is installed first. A part fails, the whole fails. --packages
# lists what all parts need.
set -eEuo pipefail
cd "$(dirname "$0")/.."

# part: packages it needs (none: -)
parts=(
	"storecrash -"
	"bmcqemu qemu-system-x86 ovmf grub-efi-amd64-bin grub-common grub2-common mtools dosfstools xorriso"
	"install qemu-system-x86 qemu-utils ovmf busybox-static grub-efi-amd64-bin grub-common dosfstools mtools e2fsprogs kmod systemd-boot-efi"
	"ironic ironic-api ironic-conductor python3-sushy"
	"thread -"
	"faults -"
	"hosts -"
	"histories -"
	"upgrade -"
	"mongo -"
	"ha -"
	"jsclient -"
	"wire -"
	"userdata cloud-init python3"
	"packages dpkg man-db groff-base bash-completion shellcheck lintian systemd systemd-container init-system-helpers passwd util-linux xz-utils"
	"lxd lxd lxd-client busybox-static uidmap rsync acl squashfs-tools debootstrap systemd iproute2"
)

if [ "${1:-}" = --packages ]; then
	printf '%s\n' "${parts[@]}" | awk '{for (i = 2; i <= NF; i++) if ($i != "-" && !seen[$i]++) print $i}'
	exit
fi
only=("$@")
wanted() {
	[ ${#only[@]} -eq 0 ] && return 0
	local name
	for name in "${only[@]}"; do [ "$name" = "$1" ] && return 0; done
	return 1
}

summary=()
part=
failed() {
	[ ${#summary[@]} -eq 0 ] || printf '%s\n' "${summary[@]}"
	echo "e2e $part: FAILED after $((SECONDS - start)) s" >&2
}
trap failed ERR
for line in "${parts[@]}"; do
	read -r part packages <<<"$line"
	wanted "$part" || continue
	start=$SECONDS
	echo "=== e2e $part"
	if [ "$packages" != - ]; then
		# shellcheck disable=SC2086 # a list of words
		test/apt-install.sh $packages
	fi
	if [ -x "test/e2e-$part.sh" ]; then
		"test/e2e-$part.sh"
	else
		go test -tags e2e -count=1 -timeout 40m -v "./internal/e2e/$part/..." 2>&1 | test/quiet.sh
	fi
	summary+=("e2e $part: ok, $((SECONDS - start)) s")
done
[ ${#summary[@]} -gt 0 ] || { echo "no such part: $*" >&2; exit 2; }
printf '%s\n' "${summary[@]}"
