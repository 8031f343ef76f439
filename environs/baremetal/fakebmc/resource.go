package fakebmc

import (
	"fmt"
	"net/http"

	"github.com/juju/errors"
)

// routes returns the table of all requests that the BMC understands.
func (b *BMC) routes() *http.ServeMux {
	mux := http.NewServeMux()
	of := func(f func(*System, http.ResponseWriter, *http.Request)) http.HandlerFunc { return b.ofSystem(f) }
	for pattern, handler := range map[string]http.HandlerFunc{
		"GET /redfish":         b.getVersions,
		"GET " + root:          b.getRoot,
		"GET " + root + "/{$}": b.getRoot,

		"GET " + root + "/SessionService":      b.getSessionService,
		"GET " + sessionsPath:                  b.getSessions,
		"POST " + sessionsPath:                 b.postSession,
		"DELETE " + sessionsPath + "/{id}":     b.deleteSession,
		"GET " + root + "/EventService":        b.getEventService,
		"GET " + subscriptionPath:              b.getSubscriptions,
		"POST " + subscriptionPath:             b.postSubscription,
		"DELETE " + subscriptionPath + "/{id}": b.deleteSubscription,

		"GET " + root + "/Systems":                                        b.getSystems,
		"GET " + root + "/Systems/{system}":                               of((*System).get),
		"PATCH " + root + "/Systems/{system}":                             of((*System).patch),
		"POST " + root + "/Systems/{system}/Actions/ComputerSystem.Reset": of((*System).postReset),

		"GET " + root + "/Systems/{system}/Bios":                          of((*System).getBios),
		"GET " + root + "/Systems/{system}/Bios/Settings":                 of((*System).getBios),
		"PATCH " + root + "/Systems/{system}/Bios/Settings":               of((*System).patchBios),
		"GET " + root + "/Systems/{system}/SecureBoot":                    of((*System).getSecureBoot),
		"GET " + root + "/Systems/{system}/Processors":                    of((*System).getProcessors),
		"GET " + root + "/Systems/{system}/Processors/{part}":             of((*System).getProcessor),
		"GET " + root + "/Systems/{system}/Memory":                        of((*System).getMemories),
		"GET " + root + "/Systems/{system}/Memory/{part}":                 of((*System).getMemory),
		"GET " + root + "/Systems/{system}/Storage":                       of((*System).getStorages),
		"GET " + root + "/Systems/{system}/Storage/{part}":                of((*System).getStorage),
		"GET " + root + "/Systems/{system}/Storage/{part}/Drives/{drive}": of((*System).getDrive),
		"GET " + root + "/Systems/{system}/EthernetInterfaces":            of((*System).getNICs),
		"GET " + root + "/Systems/{system}/EthernetInterfaces/{part}":     of((*System).getNIC),

		"GET " + root + "/Managers":           b.getManagers,
		"GET " + root + "/Managers/{manager}": of((*System).getManager),
		"GET " + root + "/Chassis":            b.getChassisAll,
		"GET " + root + "/Chassis/{chassis}":  of((*System).getChassis),
	} {
		mux.HandleFunc(pattern, handler)
	}
	for _, base := range []string{root + "/Managers/{manager}", root + "/Systems/{system}"} {
		media := base + "/VirtualMedia"
		mux.HandleFunc("GET "+media, of((*System).getMediaAll))
		mux.HandleFunc("GET "+media+"/{medium}", of((*System).getMedia))
		mux.HandleFunc("PATCH "+media+"/{medium}", of((*System).patchMedia))
		mux.HandleFunc("POST "+media+"/{medium}/Actions/VirtualMedia.InsertMedia", of((*System).postInsert))
		mux.HandleFunc("POST "+media+"/{medium}/Actions/VirtualMedia.EjectMedia", of((*System).postEject))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { notFound(w) })
	return mux
}

// ofSystem finds the system that a request is about, by its own, its manager's or
// its chassis' ID.
func (b *BMC) ofSystem(f func(*System, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, s := range b.systems {
			if id := r.PathValue("system"); id != "" && id == s.id {
				f(s, w, r)
				return
			}
			if id := r.PathValue("manager"); id != "" && id == s.managerID() {
				f(s, w, r)
				return
			}
			if id := r.PathValue("chassis"); id != "" && id == s.id {
				f(s, w, r)
				return
			}
		}
		notFound(w)
	}
}

func (b *BMC) getVersions(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, doc{"v1": root + "/"})
}

func (b *BMC) getRoot(w http.ResponseWriter, _ *http.Request) {
	d := doc{"@odata.id": root + "/", "@odata.type": "#ServiceRoot.v1_9_0.ServiceRoot", "Id": "RootService", "Name": "Root Service",
		"RedfishVersion": "1.11.0", "UUID": b.uuid, "Vendor": b.vendor.Manufacturer, "Product": b.vendor.Product,
		"Systems": link(root + "/Systems"), "Managers": link(root + "/Managers"), "Chassis": link(root + "/Chassis"),
		"EventService": link(root + "/EventService"), "SessionService": link(root + "/SessionService"),
		"Links": doc{"Sessions": link(sessionsPath)}}
	writeJSON(w, http.StatusOK, d)
}

func (b *BMC) getSystems(w http.ResponseWriter, _ *http.Request) {
	var ids []string
	for _, s := range b.systems {
		ids = append(ids, s.id)
	}
	members(w, root+"/Systems", "Systems", ids)
}

func (b *BMC) getManagers(w http.ResponseWriter, _ *http.Request) {
	var ids []string
	for _, s := range b.systems {
		ids = append(ids, s.managerID())
	}
	members(w, root+"/Managers", "Managers", ids)
}

func (b *BMC) getChassisAll(w http.ResponseWriter, _ *http.Request) {
	var ids []string
	for _, s := range b.systems {
		ids = append(ids, s.id)
	}
	members(w, root+"/Chassis", "Chassis", ids)
}

// managerID returns the ID of the manager that looks after the system.
func (s *System) managerID() string {
	if s.bmc.config.Systems == 1 {
		return s.bmc.vendor.ManagerID
	}
	return fmt.Sprintf("%s-%d", s.bmc.vendor.ManagerID, s.n)
}

// etag returns the system's ETag. The caller holds mu.
func (s *System) etag() string { return fmt.Sprintf(`"%d-%d"`, s.number, s.revision) }

func (s *System) get(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := 0
	for _, m := range s.details.memoryGB {
		total += m
	}
	boot := doc{"BootSourceOverrideEnabled": s.override.enabled, "BootSourceOverrideTarget": s.override.target,
		"BootSourceOverrideTarget@Redfish.AllowableValues": []string{"None", "Pxe", "Hdd", s.bmc.vendor.CDTarget, "UefiHttp"}, "HttpBootUri": s.override.uri}
	if !s.bmc.vendor.NoMode {
		boot["BootSourceOverrideMode"] = s.override.mode
		boot["BootSourceOverrideMode@Redfish.AllowableValues"] = []string{"UEFI", "Legacy"}
	}
	d := doc{"@odata.id": s.Path(), "@odata.type": "#ComputerSystem.v1_13_0.ComputerSystem", "@odata.etag": s.etag(),
		"Id": s.id, "Name": "System " + s.id, "SystemType": "Physical", "UUID": uuid("system", s.number), "Manufacturer": s.bmc.vendor.Manufacturer,
		"Model": "Fake 2000", "SKU": s.details.serial, "SerialNumber": s.details.serial, "BiosVersion": "1.2.3", "HostName": fmt.Sprintf("machine-%d", s.number),
		"PowerState": string(s.power), "Boot": boot, "Status": enabled(),
		"ProcessorSummary": doc{"Count": s.details.sockets, "Model": "Fake Xeon 3000", "LogicalProcessorCount": 2 * s.details.cores * s.details.sockets},
		"MemorySummary":    doc{"TotalSystemMemoryGiB": total},
		"Links":            doc{"ManagedBy": []doc{link(root + "/Managers/" + s.managerID())}, "Chassis": []doc{link(root + "/Chassis/" + s.id)}},
		"Actions": doc{"#ComputerSystem.Reset": doc{"target": s.Path() + "/Actions/ComputerSystem.Reset",
			"ResetType@Redfish.AllowableValues": s.bmc.resetTypes()}},
	}
	for _, part := range []string{"Bios", "Processors", "Memory", "Storage", "EthernetInterfaces"} {
		d[part] = link(s.Path() + "/" + part)
	}
	if _, ok := s.machine.(SecureBooter); ok {
		d["SecureBoot"] = link(s.Path() + "/SecureBoot")
	}
	if s.bmc.vendor.MediaInSystem {
		d["VirtualMedia"] = link(s.Path() + "/VirtualMedia")
	}
	writeJSON(w, http.StatusOK, d)
}

// matches reports whether a PATCH carries the ETag that the vendor insists on.
// The caller holds mu.
func (s *System) matches(w http.ResponseWriter, r *http.Request) bool {
	given := r.Header.Get("If-Match")
	switch {
	case given == "" && s.bmc.vendor.IfMatch:
		writeError(w, http.StatusPreconditionRequired, "PreconditionRequired", "The request did not provide the required If-Match header.")
		return false
	case given != "" && given != "*" && given != s.etag():
		writeError(w, http.StatusPreconditionFailed, "PreconditionFailed", "The ETag did not match.")
		return false
	}
	return true
}

func (s *System) patch(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Boot struct {
			Target  *string `json:"BootSourceOverrideTarget"`
			Enabled *string `json:"BootSourceOverrideEnabled"`
			Mode    *string `json:"BootSourceOverrideMode"`
			URI     *string `json:"HttpBootUri"`
		}
	}
	if !readBody(w, r, &in) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.matches(w, r) {
		return
	}
	o, vendor := s.override, s.bmc.vendor
	if vendor.WholeOverride && (in.Boot.Target == nil || in.Boot.Enabled == nil || in.Boot.Mode == nil) {
		writeError(w, http.StatusBadRequest, "PropertyMissing", "Boot lacks one of BootSourceOverrideTarget, BootSourceOverrideEnabled, BootSourceOverrideMode.")
		return
	}
	if in.Boot.Mode != nil {
		if vendor.NoMode {
			writeError(w, http.StatusBadRequest, "PropertyNotWritable", "BootSourceOverrideMode cannot be written.")
			return
		}
		o.mode = *in.Boot.Mode
	}
	if in.Boot.Target != nil {
		switch *in.Boot.Target {
		case "None", "Pxe", "Hdd", "UefiHttp", vendor.CDTarget:
			o.target = *in.Boot.Target
		default:
			writeError(w, http.StatusBadRequest, "PropertyValueNotInList", "BootSourceOverrideTarget is not in the list.")
			return
		}
	}
	if in.Boot.Enabled != nil {
		switch *in.Boot.Enabled {
		case enabledOnce, enabledAlways, disabled:
			o.enabled = *in.Boot.Enabled
		default:
			writeError(w, http.StatusBadRequest, "PropertyValueNotInList", "BootSourceOverrideEnabled is not in the list.")
			return
		}
	}
	if in.Boot.URI != nil {
		o.uri = *in.Boot.URI
	}
	s.override = o
	s.revision++
	w.WriteHeader(http.StatusNoContent)
}

func (s *System) postReset(w http.ResponseWriter, r *http.Request) {
	var in struct{ ResetType string }
	if !readBody(w, r, &in) {
		return
	}
	switch err := s.Reset(in.ResetType); {
	case errors.Is(err, errors.NotSupported):
		writeError(w, http.StatusBadRequest, "ActionParameterNotSupported", err.Error())
	case err != nil:
		writeError(w, http.StatusConflict, "ResourceInUse", err.Error())
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *System) getBios(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	writeJSON(w, http.StatusOK, doc{"@odata.id": s.Path() + "/Bios", "Id": "Bios", "Name": "BIOS", "Attributes": s.bios,
		"@Redfish.Settings": doc{"SettingsObject": link(s.Path() + "/Bios/Settings")}})
}

// getSecureBoot says whether the machine starts only what is signed (DSP2046, schema SecureBoot).
func (s *System) getSecureBoot(w http.ResponseWriter, _ *http.Request) {
	m, ok := s.machine.(SecureBooter)
	if !ok {
		notFound(w)
		return
	}
	writeJSON(w, http.StatusOK, doc{"@odata.id": s.Path() + "/SecureBoot", "@odata.type": "#SecureBoot.v1_1_0.SecureBoot", "Id": "SecureBoot", "Name": "UEFI Secure Boot",
		"SecureBootEnable": m.SecureBoot(), "SecureBootCurrentBoot": map[bool]string{true: "Enabled", false: "Disabled"}[m.SecureBoot()], "SecureBootMode": "UserMode"})
}

func (s *System) patchBios(w http.ResponseWriter, r *http.Request) {
	var in struct{ Attributes doc }
	if !readBody(w, r, &in) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := doc{}
	for key, value := range s.bios {
		next[key] = value
	}
	for key, value := range in.Attributes {
		if _, ok := next[key]; !ok {
			writeError(w, http.StatusBadRequest, "PropertyUnknown", "There is no such attribute.")
			return
		}
		next[key] = value
	}
	s.bios = next
	w.WriteHeader(http.StatusNoContent)
}

func (s *System) getManager(w http.ResponseWriter, _ *http.Request) {
	path := root + "/Managers/" + s.managerID()
	d := doc{"@odata.id": path, "Id": s.managerID(), "Name": "Manager", "ManagerType": "BMC", "FirmwareVersion": "4.5.6", "UUID": uuid("manager", s.number),
		"Model": s.bmc.vendor.Product, "Status": enabled(), "PowerState": "On",
		"Links": doc{"ManagerForServers": []doc{link(s.Path())}}}
	if !s.bmc.vendor.MediaInSystem {
		d["VirtualMedia"] = link(path + "/VirtualMedia")
	}
	writeJSON(w, http.StatusOK, d)
}

func (s *System) getChassis(w http.ResponseWriter, _ *http.Request) {
	path := root + "/Chassis/" + s.id
	writeJSON(w, http.StatusOK, doc{"@odata.id": path, "Id": s.id, "Name": "Chassis", "ChassisType": "RackMount", "SerialNumber": s.details.serial,
		"PowerState": "On", "Status": enabled(), "Links": doc{"ComputerSystems": []doc{link(s.Path())}, "ManagedBy": []doc{link(root + "/Managers/" + s.managerID())}}})
}
