package disk

import (
	"strconv"
	"strings"
)

// PartitionPath returns the device of partition n: links below /dev/disk take
// "-partN", names that end in a digit "pN", others "N".
func PartitionPath(disk string, n int) string {
	switch {
	case strings.HasPrefix(disk, "/dev/disk/"):
		return disk + "-part" + strconv.Itoa(n)
	case disk != "" && disk[len(disk)-1] >= '0' && disk[len(disk)-1] <= '9':
		return disk + "p" + strconv.Itoa(n)
	}
	return disk + strconv.Itoa(n)
}

// PartitionNumber returns the number of the partition that node names on disk,
// and 0 if it names none of it.
func PartitionNumber(node, disk string) int {
	rest, ok := strings.CutPrefix(node, disk)
	if !ok || disk == "" {
		return 0
	}
	if strings.HasPrefix(disk, "/dev/disk/") {
		rest, ok = strings.CutPrefix(rest, "-part")
	} else if last := disk[len(disk)-1]; last >= '0' && last <= '9' {
		rest, ok = strings.CutPrefix(rest, "p")
	}
	n, err := strconv.Atoi(rest)
	if !ok || err != nil || n < 1 || rest[0] == '+' {
		return 0
	}
	return n
}
