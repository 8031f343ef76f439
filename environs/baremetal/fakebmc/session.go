package fakebmc

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// session is an open session.
type session struct{ id, user string }

// subscription is a receiver of events.
type subscription struct{ destination, context string }

// The paths of the services.
const (
	root             = "/redfish/v1"
	sessionsPath     = root + "/SessionService/Sessions"
	subscriptionPath = root + "/EventService/Subscriptions"
)

// getSessionService describes the session service.
func (b *BMC) getSessionService(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, doc{"@odata.id": root + "/SessionService", "Id": "SessionService", "Name": "Sessions",
		"ServiceEnabled": !b.config.NoSessions, "SessionTimeout": 1800, "Sessions": link(sessionsPath)})
}

// getSessions lists the open sessions.
func (b *BMC) getSessions(w http.ResponseWriter, _ *http.Request) {
	b.mu.Lock()
	var paths []string
	for _, s := range b.sessions {
		paths = append(paths, sessionsPath+"/"+s.id)
	}
	b.mu.Unlock()
	writeJSON(w, http.StatusOK, collection(sessionsPath, "Sessions", paths))
}

// postSession logs a client in.
func (b *BMC) postSession(w http.ResponseWriter, r *http.Request) {
	var in struct{ UserName, Password string }
	if !readBody(w, r, &in) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.config.NoSessions:
		writeError(w, http.StatusMethodNotAllowed, "ActionNotSupported", "Sessions are not supported.")
		return
	case b.credentials.Password != "" && (in.UserName != b.credentials.Username || in.Password != b.credentials.Password):
		writeError(w, http.StatusUnauthorized, "ResourceAtUriUnauthorized", "The user name or password is wrong.")
		return
	case len(b.sessions) >= b.config.MaxSessions:
		writeError(w, http.StatusServiceUnavailable, "SessionLimitExceeded", "The session establishment failed due to the number of simultaneous sessions exceeding the limit of the implementation.")
		return
	}
	b.nextID++
	b.loggedIn++
	s, key := session{id: strconv.Itoa(b.nextID), user: in.UserName}, token()
	b.sessions[key] = s
	w.Header().Set("X-Auth-Token", key)
	w.Header().Set("Location", sessionsPath+"/"+s.id)
	writeJSON(w, http.StatusCreated, doc{"@odata.id": sessionsPath + "/" + s.id, "Id": s.id, "Name": "Session", "UserName": s.user})
}

// deleteSession logs a client out.
func (b *BMC) deleteSession(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, s := range b.sessions {
		if s.id == r.PathValue("id") {
			delete(b.sessions, key)
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	notFound(w)
}

// getEventService describes the event service.
func (b *BMC) getEventService(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, doc{"@odata.id": root + "/EventService", "Id": "EventService", "Name": "Events", "ServiceEnabled": true,
		"EventTypesForSubscription": []string{"StatusChange", "Alert"}, "DeliveryRetryAttempts": 1, "Subscriptions": link(subscriptionPath)})
}

// getSubscriptions lists the receivers.
func (b *BMC) getSubscriptions(w http.ResponseWriter, _ *http.Request) {
	b.mu.Lock()
	var paths []string
	for id := range b.subscriptions {
		paths = append(paths, subscriptionPath+"/"+id)
	}
	b.mu.Unlock()
	writeJSON(w, http.StatusOK, collection(subscriptionPath, "Subscriptions", paths))
}

// postSubscription adds a receiver.
func (b *BMC) postSubscription(w http.ResponseWriter, r *http.Request) {
	var in struct{ Destination, Context, Protocol string }
	if !readBody(w, r, &in) {
		return
	}
	if u, err := url.Parse(in.Destination); err != nil || u.Host == "" {
		writeError(w, http.StatusBadRequest, "PropertyValueFormatError", "Destination is not a URL.")
		return
	}
	b.mu.Lock()
	b.nextID++
	id := strconv.Itoa(b.nextID)
	b.subscriptions[id] = subscription{in.Destination, in.Context}
	b.mu.Unlock()
	w.Header().Set("Location", subscriptionPath+"/"+id)
	writeJSON(w, http.StatusCreated, doc{"@odata.id": subscriptionPath + "/" + id, "Id": id, "Name": "Subscription",
		"Destination": in.Destination, "Context": in.Context, "Protocol": "Redfish"})
}

// deleteSubscription removes a receiver.
func (b *BMC) deleteSubscription(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	_, ok := b.subscriptions[r.PathValue("id")]
	delete(b.subscriptions, r.PathValue("id"))
	b.mu.Unlock()
	if !ok {
		notFound(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// eventTimeout bounds the delivery of one event; there is no second try.
const eventTimeout = 5 * time.Second

// announce sends an event to all receivers, without waiting for them.
func (b *BMC) announce(origin, message string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.subscriptions {
		b.nextID++
		data, _ := json.Marshal(doc{"Id": strconv.Itoa(b.nextID), "Name": "Event", "Context": s.context, "Events": []doc{{
			"EventType": "StatusChange", "EventId": strconv.Itoa(b.nextID), "Message": message,
			"MessageId": "ResourceEvent.1.0.ResourceChanged", "OriginOfCondition": link(origin),
		}}})
		b.run(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, eventTimeout)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.destination, bytes.NewReader(data))
			if err != nil {
				return
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				logger.Debugf("event not delivered: %v", err)
				return
			}
			_ = resp.Body.Close()
		})
	}
}

// run runs f in a goroutine that Close waits for; after Close it does nothing.
func (b *BMC) run(f func(ctx context.Context)) {
	b.life.Lock()
	defer b.life.Unlock()
	if !b.tomb.Alive() {
		return
	}
	b.tomb.Go(func() error {
		f(b.tomb.Context(nil))
		return nil
	})
}

// control serves the faults of this BMC: GET the counts, POST a Fault, DELETE all.
func (b *BMC) control(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/fakebmc/stats" && r.Method == http.MethodGet:
		s := b.Stats()
		writeJSON(w, http.StatusOK, doc{"requests": s.Requests, "max-in-flight": s.MaxInFlight, "sessions": s.Sessions, "logged-in": s.LoggedIn})
	case r.URL.Path == "/fakebmc/faults" && r.Method == http.MethodPost:
		var f Fault
		if !readBody(w, r, &f) {
			return
		}
		if err := b.Inject(f); err != nil {
			writeError(w, http.StatusBadRequest, "GeneralError", err.Error())
			return
		}
		w.WriteHeader(http.StatusNoContent)
	case r.URL.Path == "/fakebmc/faults" && r.Method == http.MethodDelete:
		b.ClearFaults()
		w.WriteHeader(http.StatusNoContent)
	default:
		notFound(w)
	}
}

// notFound answers that there is no such resource.
func notFound(w http.ResponseWriter) {
	writeError(w, http.StatusNotFound, "ResourceMissingAtURI", "The resource at the URI was not found.")
}
