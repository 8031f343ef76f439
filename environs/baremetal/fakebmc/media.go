package fakebmc

import (
	"encoding/json"
	"net/http"
	"net/url"
)

// mediaBase returns the path of the collection of virtual media.
func (s *System) mediaBase() string {
	if s.bmc.vendor.MediaInSystem {
		return s.Path() + "/VirtualMedia"
	}
	return root + "/Managers/" + s.managerID() + "/VirtualMedia"
}

// mediaHere reports whether the request is for the collection that the vendor
// has, and for one of its devices if it names one.
func (s *System) mediaHere(w http.ResponseWriter, r *http.Request) bool {
	id := r.PathValue("medium")
	if (r.PathValue("system") != "") == s.bmc.vendor.MediaInSystem && (id == "" || id == s.bmc.vendor.CD || id == floppy) {
		return true
	}
	notFound(w)
	return false
}

// floppy is the ID of the other device, which machines do not boot from.
const floppy = "Floppy1"

// device returns the device of that ID. The caller holds mu.
func (s *System) device(id string) *medium {
	if id == floppy {
		return &s.floppy
	}
	return &s.cd
}

func (s *System) getMediaAll(w http.ResponseWriter, r *http.Request) {
	if s.mediaHere(w, r) {
		members(w, s.mediaBase(), "Virtual media", []string{floppy, s.bmc.vendor.CD})
	}
}

func (s *System) getMedia(w http.ResponseWriter, r *http.Request) {
	if !s.mediaHere(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := r.PathValue("medium")
	path := s.mediaBase() + "/" + id
	d := doc{"@odata.id": path, "@odata.etag": s.etag(), "Id": id, "Name": "Virtual CD", "MediaTypes": []string{"CD", "DVD"}, "Inserted": false, "Image": nil,
		"ConnectedVia": "NotConnected", "WriteProtected": true}
	if id == floppy {
		d["Name"], d["MediaTypes"] = "Virtual floppy", []string{"Floppy", "USBStick"}
	}
	if m := s.device(id); m.image != "" {
		d["Inserted"], d["Image"], d["ConnectedVia"], d["WriteProtected"] = true, m.image, "URI", m.writeProtected
	}
	if !s.bmc.vendor.PatchMedia {
		d["Actions"] = doc{
			"#VirtualMedia.InsertMedia": doc{"target": path + "/Actions/VirtualMedia.InsertMedia"},
			"#VirtualMedia.EjectMedia":  doc{"target": path + "/Actions/VirtualMedia.EjectMedia"},
		}
	}
	writeJSON(w, http.StatusOK, d)
}

// insertion is what InsertMedia and PATCH are told.
type insertion struct {
	Image          *string
	Inserted       *bool
	WriteProtected *bool
}

// insert puts a medium in, or takes it out if image is empty.
func (s *System) insert(w http.ResponseWriter, m *medium, in insertion) {
	image := ""
	if in.Image != nil {
		image = *in.Image
	}
	if image != "" {
		if u, err := url.Parse(image); err != nil || u.Host == "" {
			writeError(w, http.StatusBadRequest, "PropertyValueFormatError", "Image is not a URL.")
			return
		}
		if s.bmc.vendor.EjectFirst && m.image != "" {
			writeError(w, http.StatusConflict, "ResourceInUse", "Virtual media is already attached; eject it first.")
			return
		}
	}
	*m = medium{image: image, writeProtected: in.WriteProtected == nil || *in.WriteProtected}
	s.revision++
	w.WriteHeader(http.StatusNoContent)
}

func (s *System) postInsert(w http.ResponseWriter, r *http.Request) {
	var raw map[string]json.RawMessage
	if !s.mediaHere(w, r) || !readBody(w, r, &raw) {
		return
	}
	var in insertion
	_ = json.Unmarshal(raw["Image"], &in.Image)
	_ = json.Unmarshal(raw["WriteProtected"], &in.WriteProtected)
	switch {
	case s.bmc.vendor.PatchMedia:
		notFound(w)
	case in.Image == nil || *in.Image == "":
		writeError(w, http.StatusBadRequest, "ActionParameterMissing", "Image is missing.")
	case s.bmc.vendor.ImageOnly && len(raw) > 1:
		writeError(w, http.StatusBadRequest, "ActionParameterUnknown", "InsertMedia takes Image only.")
	default:
		if d := s.bmc.config.Delays.Media; d > 0 && !s.bmc.stall(r, d) {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.insert(w, s.device(r.PathValue("medium")), in)
	}
}

func (s *System) postEject(w http.ResponseWriter, r *http.Request) {
	if !s.mediaHere(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.device(r.PathValue("medium"))
	if s.bmc.vendor.EjectFirst && m.image == "" {
		writeError(w, http.StatusConflict, "ResourceInUse", "No virtual media is attached.")
		return
	}
	s.insert(w, m, insertion{})
}

func (s *System) patchMedia(w http.ResponseWriter, r *http.Request) {
	var in insertion
	if !s.mediaHere(w, r) || !readBody(w, r, &in) {
		return
	}
	if !s.bmc.vendor.PatchMedia {
		writeError(w, http.StatusMethodNotAllowed, "ActionNotSupported", "Use the actions of the device.")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.matches(w, r) {
		s.insert(w, s.device(r.PathValue("medium")), in)
	}
}
