#!/usr/bin/env bash
# Builds the installer's initramfs, EFI program and ISO in a folder. Of KERNEL and
# MODULES (lib/modules/VERSION, after depmod); without them of Debian's kernel for servers,
# which is downloaded by apt and not installed. SIGN_KEY and SIGN_CERT sign the EFI program.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: test/installer-image.sh FOLDER}
test/apt-install.sh busybox-static systemd-boot-efi kmod e2fsprogs dosfstools xfsprogs btrfs-progs lvm2 mdadm nvme-cli hdparm ca-certificates
if [ -z "${KERNEL:-}" ]; then
	cache=${XDG_CACHE_HOME:-$HOME/.cache}/slipway-kernel
	mkdir -p "$cache"
	kernel() { apt-cache depends "linux-image-$(dpkg --print-architecture)" 2>/dev/null | awk '/Depends:/ && !n++ {print $2}'; }
	package=$(kernel || true)
	if [ -z "$package" ] && [ "$(id -u)" = 0 ]; then # a new machine knows no packages
		apt-get update -q -o Acquire::Retries=3 >/dev/null
		package=$(kernel || true)
	fi
	[ -n "$package" ] || { echo "apt knows no kernel: run apt-get update, or give KERNEL and MODULES" >&2; exit 1; }
	if [ ! -e "$cache/$package/ready" ]; then
		(cd "$cache" && apt-get download -q "$package" && dpkg-deb -x "$package"_*.deb "$package")
		depmod -b "$cache/$package" "${package#linux-image-}"
		touch "$cache/$package/ready"
	fi
	KERNEL=$cache/$package/boot/vmlinuz-${package#linux-image-}
	MODULES=$cache/$package/lib/modules/${package#linux-image-}
fi
signing=()
if [ -n "${SIGN_KEY:-}" ]; then
	test/apt-install.sh sbsigntool
	signing=(--sign-key "$SIGN_KEY" --sign-cert "${SIGN_CERT:?give the certificate of SIGN_KEY}")
fi
exec bin/installer-image --kernel "$KERNEL" --modules "${MODULES:-}" --installer bin/installer --out "$out" "${signing[@]}"
