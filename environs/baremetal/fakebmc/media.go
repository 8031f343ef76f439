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

// floppy is the ID of a device that takes no CD, as most BMCs have one.
const floppy = "Floppy1"

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
	} else if s.cd.image != "" {
		d["Inserted"], d["Image"], d["ConnectedVia"], d["WriteProtected"] = true, s.cd.image, "URI", s.cd.writeProtected
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
func (s *System) insert(w http.ResponseWriter, in insertion) {
	image := ""
	if in.Image != nil {
		image = *in.Image
	}
	if image != "" {
		if u, err := url.Parse(image); err != nil || u.Host == "" {
			writeError(w, http.StatusBadRequest, "PropertyValueFormatError", "Image is not a URL.")
			return
		}
		if s.bmc.vendor.EjectFirst && s.cd.image != "" {
			writeError(w, http.StatusConflict, "ResourceInUse", "Virtual media is already attached; eject it first.")
			return
		}
	}
	s.cd = medium{image: image, writeProtected: in.WriteProtected == nil || *in.WriteProtected}
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
	case r.PathValue("medium") == floppy:
		writeError(w, http.StatusBadRequest, "ActionParameterNotSupported", "The device takes no such image.")
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
		s.insert(w, in)
	}
}

func (s *System) postEject(w http.ResponseWriter, r *http.Request) {
	if !s.mediaHere(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bmc.vendor.EjectFirst && s.cd.image == "" {
		writeError(w, http.StatusConflict, "ResourceInUse", "No virtual media is attached.")
		return
	}
	s.insert(w, insertion{})
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
		s.insert(w, in)
	}
}
