package fakebmc

import (
	"fmt"
	"net/http"
)

// Hardware is what a machine is made of, as its own system sees it.
type Hardware struct {
	Serial    string
	CPUs      int // logical processors
	MemoryMiB int
	Disks     []Disk
	MACs      []string // of its network ports, the first first
}

// Disk is one disk of a machine.
type Disk struct {
	Serial     string
	Bytes      int64
	Rotational bool
}

// Hardware returns what the machine is made of.
func (s *System) Hardware() Hardware {
	inv := s.details
	h := Hardware{Serial: inv.serial, CPUs: 2 * inv.cores * inv.sockets}
	for _, gb := range inv.memoryGB {
		h.MemoryMiB += gb << 10
	}
	for _, d := range inv.disks {
		h.Disks = append(h.Disks, Disk{Serial: d.serial, Bytes: d.bytes, Rotational: d.media == "HDD"})
	}
	for _, n := range inv.nics {
		h.MACs = append(h.MACs, n.mac)
	}
	return h
}

// inventory is what a machine is made of.
type inventory struct {
	serial   string
	sockets  int
	cores    int // per socket; threads are twice that
	memoryGB []int
	disks    []disk
	nics     []nic
}

// disk is one drive.
type disk struct {
	id, name, media, protocol, serial string
	bytes                             int64
}

// nic is one network interface.
type nic struct {
	id, mac string
	mbps    int
}

// inventoryOf returns what machine number n is made of. Sizes repeat with n, so
// that constraints have something to choose from.
func inventoryOf(n int) inventory {
	inv := inventory{serial: fmt.Sprintf("FAKE%06d", n), sockets: 1 + n%2, cores: 8 << (n % 3)}
	for range 2 << (n % 3) {
		inv.memoryGB = append(inv.memoryGB, 16)
	}
	for i, size := range []int64{240, 960 << (n % 3)} {
		media, protocol := "SSD", "NVMe"
		if i > 0 && n%2 == 0 {
			media, protocol = "HDD", "SAS"
		}
		inv.disks = append(inv.disks, disk{id: fmt.Sprint(i), name: fmt.Sprintf("Disk.Bay.%d", i), media: media, protocol: protocol,
			serial: fmt.Sprintf("DISK%06d%d", n, i), bytes: size * 1_000_000_000})
	}
	for i := range 2 {
		inv.nics = append(inv.nics, nic{id: fmt.Sprintf("NIC%d", i+1), mbps: 25000,
			mac: fmt.Sprintf("52:54:%02x:%02x:%02x:%02x", i, byte(n>>16), byte(n>>8), byte(n))})
	}
	return inv
}

// members answers with a collection of n resources below the request's path.
func members(w http.ResponseWriter, path, name string, ids []string) {
	var paths []string
	for _, id := range ids {
		paths = append(paths, path+"/"+id)
	}
	writeJSON(w, http.StatusOK, collection(path, name, paths))
}

// enabled is the status of a part that works.
func enabled() doc { return doc{"State": "Enabled", "Health": "OK"} }

// getProcessors and getProcessor serve the processors.
func (s *System) getProcessors(w http.ResponseWriter, _ *http.Request) {
	var ids []string
	for i := range s.details.sockets {
		ids = append(ids, fmt.Sprint(i+1))
	}
	members(w, s.Path()+"/Processors", "Processors", ids)
}

func (s *System) getProcessor(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("part")
	for i := range s.details.sockets {
		if id == fmt.Sprint(i+1) {
			writeJSON(w, http.StatusOK, doc{"@odata.id": s.Path() + "/Processors/" + id, "Id": id, "Name": "CPU " + id, "ProcessorType": "CPU",
				"ProcessorArchitecture": "x86", "InstructionSet": "x86-64", "Manufacturer": "Fake", "Model": "Fake Xeon 3000", "MaxSpeedMHz": 3000,
				"TotalCores": s.details.cores, "TotalThreads": 2 * s.details.cores, "Socket": "CPU" + id, "Status": enabled()})
			return
		}
	}
	notFound(w)
}

// getMemories and getMemory serve the memory modules.
func (s *System) getMemories(w http.ResponseWriter, _ *http.Request) {
	var ids []string
	for i := range s.details.memoryGB {
		ids = append(ids, fmt.Sprintf("DIMM%d", i))
	}
	members(w, s.Path()+"/Memory", "Memory", ids)
}

func (s *System) getMemory(w http.ResponseWriter, r *http.Request) {
	for i, size := range s.details.memoryGB {
		if id := fmt.Sprintf("DIMM%d", i); id == r.PathValue("part") {
			writeJSON(w, http.StatusOK, doc{"@odata.id": s.Path() + "/Memory/" + id, "Id": id, "Name": id, "CapacityMiB": size << 10,
				"MemoryDeviceType": "DDR4", "Status": enabled()})
			return
		}
	}
	notFound(w)
}

// getStorages, getStorage and getDrive serve the disks.
func (s *System) getStorages(w http.ResponseWriter, _ *http.Request) {
	members(w, s.Path()+"/Storage", "Storage", []string{"Controller1"})
}

func (s *System) getStorage(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("part") != "Controller1" {
		notFound(w)
		return
	}
	drives := make([]doc, 0, len(s.details.disks))
	for _, d := range s.details.disks {
		drives = append(drives, link(s.Path()+"/Storage/Controller1/Drives/"+d.id))
	}
	writeJSON(w, http.StatusOK, doc{"@odata.id": s.Path() + "/Storage/Controller1", "Id": "Controller1", "Name": "Storage controller",
		"Drives": drives, "Drives@odata.count": len(drives), "Status": enabled(),
		"StorageControllers": []doc{{"MemberId": "0", "Name": "Fake RAID", "Manufacturer": "Fake", "Model": "H9"}}})
}

func (s *System) getDrive(w http.ResponseWriter, r *http.Request) {
	for _, d := range s.details.disks {
		if d.id == r.PathValue("drive") {
			writeJSON(w, http.StatusOK, doc{"@odata.id": s.Path() + "/Storage/Controller1/Drives/" + d.id, "Id": d.id, "Name": d.name,
				"CapacityBytes": d.bytes, "MediaType": d.media, "Protocol": d.protocol, "Manufacturer": "Fake", "Model": "Fakedisk 1",
				"SerialNumber": d.serial, "RotationSpeedRPM": map[bool]int{true: 7200}[d.media == "HDD"], "Status": enabled(),
				"Identifiers": []doc{{"DurableNameFormat": "NAA", "DurableName": "5000c500" + d.serial[len(d.serial)-7:] + "0"}}})
			return
		}
	}
	notFound(w)
}

// getNICs and getNIC serve the network interfaces.
func (s *System) getNICs(w http.ResponseWriter, _ *http.Request) {
	var ids []string
	for _, n := range s.details.nics {
		ids = append(ids, n.id)
	}
	members(w, s.Path()+"/EthernetInterfaces", "Ethernet interfaces", ids)
}

func (s *System) getNIC(w http.ResponseWriter, r *http.Request) {
	for _, n := range s.details.nics {
		if n.id == r.PathValue("part") {
			writeJSON(w, http.StatusOK, doc{"@odata.id": s.Path() + "/EthernetInterfaces/" + n.id, "Id": n.id, "Name": n.id, "MACAddress": n.mac,
				"PermanentMACAddress": n.mac, "SpeedMbps": n.mbps, "LinkStatus": "LinkUp", "InterfaceEnabled": true,
				"IPv4Addresses": []doc{}, "IPv6Addresses": []doc{}, "Status": enabled()})
			return
		}
	}
	notFound(w)
}
