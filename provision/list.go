package provision

import (
	"time"

	"github.com/slipway-project/slipway/provision/config"
)

// What to look at when a step of a kind has failed.
var (
	dumpDisks = []string{"ls -l /sys/block", "cat /proc/partitions", "cat /proc/scsi/scsi", "cat /proc/modules"}
	dumpTable = []string{"cat /proc/partitions", "sfdisk --list", "df"}
	dumpMount = []string{"cat /proc/mounts", "ls -l /newroot", "df"}
	dumpRoot  = []string{"cat /proc/mounts", "ls -l /newroot/boot", "ls -l /newroot/usr/sbin"}
	dumpEFI   = []string{"ls /sys/firmware/efi/efivars", "efibootmgr -v", "grep efi /proc/mounts"}
)

// provisionSteps is THE list: what Provision does, in this order.
func (o *Orchestrator) provisionSteps() []plannedStep {
	c := o.cfg
	return []plannedStep{
		{Step: Step{Name: "report-init", Fn: o.reportInit}, Retries: 5, Timeout: 5 * time.Minute, Rerun: true, Silent: true},
		{Step: Step{Name: "collect-inventory", Fn: o.collectInventory}, Timeout: 2 * time.Minute, Skip: unless(c.Inventory, "inventory is not asked for")},
		{Step: Step{Name: "collect-firmware", Fn: o.collectFirmware}, Timeout: 2 * time.Minute, Skip: unless(c.Firmware.Report || c.Firmware.MinBIOS != "" || c.Firmware.MinBMC != "", "firmware is not asked for")},
		{Step: Step{Name: "health-checks", Fn: o.healthChecks}, Timeout: 2 * time.Minute, Skip: unless(!c.Health.Disabled, "switched off")},
		{Step: Step{Name: "stop-raid", Fn: o.disk.StopRAID}, Timeout: time.Minute, Dump: dumpDisks},
		{Step: Step{Name: "disable-lvm", Fn: o.disk.DisableLVM}, Timeout: time.Minute, Dump: dumpDisks},
		{Step: Step{Name: "mount-efivarfs", Fn: o.mountEFIVars}, Timeout: time.Minute, Rerun: true, Skip: o.noFirmware, Dump: dumpEFI},
		{Step: Step{Name: "setup-nvme-namespaces", Fn: o.setupNamespaces}, Timeout: 10 * time.Minute, Skip: unless(len(c.Namespaces) > 0, "no namespaces are asked for"), Dump: dumpDisks},
		{Step: Step{Name: "detect-disk", Fn: o.detectDisk}, Retries: 3, Timeout: time.Minute, Rerun: true, Dump: dumpDisks},
		{Step: Step{Name: "verify-image", Fn: o.verifyImage}, Retries: 3, Timeout: 5 * time.Minute, Rerun: true},
		{Step: Step{Name: "wipe-disk", Fn: o.wipeDisk}, Timeout: 12 * time.Hour, Dump: dumpDisks},
		{Step: Step{Name: "apply-partition-layout", Fn: o.applyLayout}, Timeout: 10 * time.Minute, Skip: unless(c.Layout != nil, "the image brings its partitions"), Dump: dumpTable},
		{Step: Step{Name: "stream-image", Fn: o.streamImage}, Retries: 3, Timeout: 4 * time.Hour, Dump: dumpTable},
		{Step: Step{Name: "reread-partitions", Fn: o.rereadPartitions}, Retries: 3, Timeout: time.Minute, Rerun: true, Skip: unless(c.Layout == nil, "the kernel read the layout's partitions when they were made"), Dump: dumpTable},
		{Step: Step{Name: "enable-lvm", Fn: o.enableLVM}, Timeout: time.Minute, Rerun: true, Dump: dumpDisks},
		{Step: Step{Name: "parse-partitions", Fn: o.parsePartitions}, Timeout: time.Minute, Rerun: true, Dump: dumpTable},
		{Step: Step{Name: "grow-partition", Fn: o.growPartition}, Timeout: time.Minute, Skip: unless(c.Layout == nil, "the layout gives the sizes"), Dump: dumpTable},
		{Step: Step{Name: "check-filesystem", Fn: o.checkFilesystem}, Timeout: time.Hour, Dump: dumpTable},
		{Step: Step{Name: "mount-root", Fn: o.mountRoot}, Timeout: time.Minute, Rerun: true, Dump: dumpMount},
		{Step: Step{Name: "mount-boot", Fn: o.mountBoot}, Timeout: time.Minute, Rerun: true, Dump: dumpMount},
		{Step: Step{Name: "setup-chroot-binds", Fn: o.setupBinds}, Timeout: time.Minute, Rerun: true, Dump: dumpMount},
		{Step: Step{Name: "resize-filesystem", Fn: o.resizeFilesystem}, Timeout: time.Hour, Dump: dumpMount},
		{Step: Step{Name: "copy-provisioner-files", Fn: o.copyProvisionerFiles}, Timeout: 10 * time.Minute, Dump: dumpMount},
		{Step: Step{Name: "set-hostname", Fn: o.setHostname}, Timeout: time.Minute, Skip: unless(c.Hostname != "", "no hostname is given")},
		{Step: Step{Name: "configure-dns", Fn: o.configureDNS}, Timeout: time.Minute, Skip: unless(len(c.DNS) > 0, "no name server is given")},
		{Step: Step{Name: "write-fstab", Fn: o.writeFstab}, Timeout: time.Minute, Skip: unless(c.Layout != nil, "the image brings its own")},
		{Step: Step{Name: "configure-kubelet", Fn: o.configureKubelet}, Timeout: time.Minute, Skip: unless(c.Kubelet != nil, "the machine is no Kubernetes node"), Dump: dumpRoot},
		{Step: Step{Name: "configure-grub", Fn: o.configureGRUB}, Timeout: 10 * time.Minute, Skip: unless(len(c.Kernel.Append)+len(c.Kernel.Replace) > 0, "no kernel parameters are given"), Dump: dumpRoot},
		{Step: Step{Name: "inject-cloudinit", Fn: o.injectCloudInit}, Timeout: time.Minute, Skip: unless(c.CloudInit != nil, "nothing for cloud-init")},
		{Step: Step{Name: "copy-machine-files", Fn: o.copyMachineFiles}, Timeout: 10 * time.Minute, Dump: dumpMount},
		{Step: Step{Name: "run-machine-commands", Fn: o.runMachineCommands}, Timeout: time.Hour, Dump: dumpRoot},
		{Step: Step{Name: "run-post-provision-cmds", Fn: o.runPostCommands}, Timeout: time.Hour, Skip: unless(len(c.PostCmds) > 0, "no commands are given"), Dump: dumpRoot},
		{Step: Step{Name: "setup-mellanox", Fn: o.setupMellanox}, Timeout: 10 * time.Minute, Skip: unless(c.VirtualFns > 0, "no virtual functions are asked for")},
		{Step: Step{Name: "remove-efi-entries", Fn: o.removeEFIEntries}, Timeout: time.Minute, Skip: o.noFirmware, Dump: dumpEFI},
		{Step: Step{Name: "create-efi-boot-entry", Fn: o.createEFIEntry}, Retries: 2, Timeout: time.Minute, Skip: o.noFirmware, Dump: dumpEFI},
		{Step: Step{Name: "prepare-kexec", Fn: o.prepareKexec}, Timeout: time.Minute, Skip: unless(c.Finish == config.FinishKexec, "the machine leaves through its firmware")},
		{Step: Step{Name: "teardown-chroot", Fn: o.unmountAll}, Retries: 2, Timeout: 5 * time.Minute, Rerun: true, Dump: dumpMount},
		{Step: Step{Name: "report-success", Fn: o.reportSuccess}, Retries: 5, Timeout: 10 * time.Minute, Rerun: true, Silent: true},
	}
}

// hardSteps is what a hard deprovision does, in this order.
func (o *Orchestrator) hardSteps() []plannedStep {
	return []plannedStep{
		{Step: Step{Name: "report-init", Fn: o.reportInit}, Retries: 5, Timeout: 5 * time.Minute, Rerun: true, Silent: true},
		{Step: Step{Name: "stop-raid", Fn: o.disk.StopRAID}, Timeout: time.Minute, Dump: dumpDisks},
		{Step: Step{Name: "disable-lvm", Fn: o.disk.DisableLVM}, Timeout: time.Minute, Dump: dumpDisks},
		{Step: Step{Name: "mount-efivarfs", Fn: o.mountEFIVars}, Timeout: time.Minute, Rerun: true, Skip: o.noFirmware, Dump: dumpEFI},
		{Step: Step{Name: "wipe-all-disks", Fn: o.wipeAllDisks}, Timeout: 48 * time.Hour, Dump: dumpDisks},
		{Step: Step{Name: "remove-efi-entries", Fn: o.removeEFIEntries}, Timeout: time.Minute, Skip: o.noFirmware, Dump: dumpEFI},
		{Step: Step{Name: "teardown", Fn: o.unmountAll}, Timeout: time.Minute, Rerun: true},
		{Step: Step{Name: "report-success", Fn: o.reportSuccess}, Retries: 5, Timeout: 10 * time.Minute, Rerun: true, Silent: true},
	}
}

// softSteps is what a soft deprovision does, in this order.
func (o *Orchestrator) softSteps() []plannedStep {
	return []plannedStep{
		{Step: Step{Name: "report-init", Fn: o.reportInit}, Retries: 5, Timeout: 5 * time.Minute, Rerun: true, Silent: true},
		{Step: Step{Name: "find-recorded-disk", Fn: o.findRecordedDisk}, Retries: 3, Timeout: time.Minute, Rerun: true, Dump: dumpDisks},
		{Step: Step{Name: "reread-partitions", Fn: o.rereadPartitions}, Retries: 3, Timeout: time.Minute, Rerun: true, Dump: dumpTable},
		{Step: Step{Name: "enable-lvm", Fn: o.enableLVM}, Timeout: time.Minute, Rerun: true, Dump: dumpDisks},
		{Step: Step{Name: "parse-partitions", Fn: o.parsePartitions}, Timeout: time.Minute, Rerun: true, Dump: dumpTable},
		{Step: Step{Name: "mount-root", Fn: o.mountRoot}, Timeout: time.Minute, Rerun: true, Dump: dumpMount},
		{Step: Step{Name: "mount-boot", Fn: o.mountBoot}, Timeout: time.Minute, Rerun: true, Dump: dumpMount},
		{Step: Step{Name: "disable-boot", Fn: o.disableBoot}, Timeout: time.Minute, Dump: dumpRoot},
		{Step: Step{Name: "teardown", Fn: o.unmountAll}, Retries: 2, Timeout: 5 * time.Minute, Rerun: true},
		{Step: Step{Name: "report-success", Fn: o.reportSuccess}, Retries: 5, Timeout: 10 * time.Minute, Rerun: true, Silent: true},
	}
}

// unless returns a Skip that gives why unless wanted.
func unless(wanted bool, why string) func() string {
	return func() string {
		if wanted {
			return ""
		}
		return why
	}
}
