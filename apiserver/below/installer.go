package below

// InstallerBase is the path below which installers of machines are served.
const InstallerBase = "/installer"

// MediumPath returns the path below InstallerBase of the ISO of a host, given by its UID, or
// of its program for UEFI HTTP boot. The secret is what lets somebody have it.
func MediumPath(host, secret string, http bool) string {
	file := "installer.iso"
	if http {
		file = "boot.efi"
	}
	return "/media/" + host + "/" + secret + "/" + file
}
